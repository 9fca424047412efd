# Python of the distribution, its managers, and what checks code.
packages python3-venv python3-pip python3-dev gcc libc6-dev
python_tools poetry uv ruff mypy bandit coverage
