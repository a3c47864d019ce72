"""What can be chosen of ToolRerank, whatever says how many parents a query takes."""

from __future__ import annotations

from pydantic import Field

from bench.models.classifiers import Backend
from bench.specs.parameters import MethodSpec, ParameterSet
from bench.specs.spec import Spec


class ToolRerankParameters(ParameterSet):
    """Parameters of ToolRerank with any classification; the numbers' defaults are the paper's (Table 2)."""

    base: MethodSpec = Field(Spec("dense"), description="the retriever: a method with vectors")
    reranker: str = Field("", description="the cross-encoder: a folder, or a name on the hub (required)")
    backend: Backend = Field("torch", description="what computes the cross-encoder")
    seen_depth: int = Field(10, ge=1, description="m_s: to what rank retrieved tools of seen parents are reranked")
    unseen_depth: int = Field(50, ge=1, description="m_u: to what rank retrieved tools of unseen parents are reranked")
    single_threshold: float = Field(0.85, description="τ_s: a parent is likely if one of its tools is more relevant")
    multi_threshold: float = Field(0.7, description="τ_m: tools that are more similar are alike")
    group_size: int = Field(3, ge=1, description="n: how many of a group of like tools come first")
    extend_seen: bool = Field(False, description="whether likely parents that are seen bring all their tools")
    extend_unseen: bool = Field(True, description="whether likely parents that are unseen bring all their tools")
