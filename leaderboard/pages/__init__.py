"""The pages of the site: a module and a template each."""
