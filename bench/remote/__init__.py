"""External retrievers: queries go out as JSON, answers come back as untrusted JSON. Methods call it."""
