"""Right and wrong uses of each component, for type checkers. Nothing here is run.

mypy checks the folder together with the package: ``python -m mypy``. A line with ``# type: ignore[code]`` is wrong, and
must be reported with this code, because mypy reports an ignore comment that is not needed. `assert_type` compares
inferred types. pyright reads the same comments: ``pyright -p tests/typing``.
"""
