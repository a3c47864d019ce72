"""The parameters of ToolRerank, whatever predicts how many parents a query needs."""

from __future__ import annotations

from pydantic import Field

from bench.base.parameters import MethodSpec, ParameterSet
from bench.base.spec import Spec
from bench.models.compiled import Backend


class ToolRerankParameters(ParameterSet):
    """Parameters of ToolRerank with any classification; numeric defaults are the paper's (Table 2)."""

    base: MethodSpec = Field(Spec("dense"), description="retrieval method with vectors")
    reranker: str = Field("", description="cross-encoder: a folder, or a Hub name (required)")
    backend: Backend = Field("torch", description="inference backend of the cross-encoder")
    seen_depth: int = Field(10, ge=1, description="truncation depth for tools of seen parents (m_s)")
    unseen_depth: int = Field(50, ge=1, description="truncation depth for tools of unseen parents (m_u)")
    single_threshold: float = Field(0.85, description="relevance threshold of likely parents in Algorithm 1 (τ_s)")
    multi_threshold: float = Field(0.7, description="similarity threshold for linking tools in Algorithm 2 (τ_m)")
    group_size: int = Field(3, ge=1, description="number of leading tools per connected component in Algorithm 2 (n)")
    extend_seen: bool = Field(False, description="likely seen parents add all their tools")
    extend_unseen: bool = Field(True, description="likely unseen parents add all their tools")
