"""The pages of the site: one module and one template each. `registry` finds them, `site` writes them."""
