"""What breaks a retriever: perturbed requests and libraries, attackers, missing tools, and growing libraries."""
