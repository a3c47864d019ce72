"""What tests share; any test imports it as `from kit.NAME import ...`. `tests/README.md` says what is where."""
