"""Graph convolution without trained weights: X' = D^-1/2 (A + αI) D^-1/2 X (TGR eq. 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from bench.methods.tgr.edges import Edges

if TYPE_CHECKING:
    import scipy.sparse as sp

Direction = Literal["symmetric", "prerequisite", "dependent"]


def propagation(edges: Edges, tools: int, direction: Direction, alpha: float, layers: int) -> sp.csr_matrix:
    """The (tools, tools) matrix P of X' = P X.

    Args:
        edges: (edges, 2) [dependent, prerequisite]; repeated edges count once.
        tools: number of tools.
        direction: `symmetric` (eq. 3: information flows both ways), `prerequisite` (a prerequisite takes in its
            dependents, as DeleteAccount's information enters GetUserToken in the paper's case study) or
            alpha: weight of the self loop; 1 is eq. 3. A larger value keeps more of a tool's own text.
        alpha: weight of the self loop; 1 is eq. 3. A larger one keeps more of a tool's own text.
        layers: number of convolutions.

    D is the degree matrix of A + αI with A symmetric, for every direction, so that directions differ in where
    information flows and not in scaling.
    """
    import scipy.sparse as sp

    dependent, prerequisite = edges[:, 0], edges[:, 1]
    ones = np.ones(len(edges))
    forward = sp.csr_matrix((ones, (dependent, prerequisite)), shape=(tools, tools))
    forward.data[:] = np.minimum(forward.data, 1.0)
    both = forward.maximum(forward.T)
    loops = alpha * sp.identity(tools, format="csr")
    degree = np.asarray((both + loops).sum(axis=1)).ravel()
    scale = sp.diags_array(1.0 / np.sqrt(degree))
    # Row i collects what flows into tool i.
    flow = {"symmetric": both, "dependent": forward, "prerequisite": forward.T}[direction]
    step = sp.csr_matrix(scale @ (flow + loops) @ scale)
    result = step
    for _ in range(layers - 1):
        result = sp.csr_matrix(result @ step)
    return result
