"""Run mypy on the package. The repository root is the package, so mypy needs to see it under its import name."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = [path.parent.relative_to(ROOT) for path in sorted(ROOT.glob("*/__init__.py"))]

with tempfile.TemporaryDirectory() as folder:
    (Path(folder) / "zcbench").symlink_to(ROOT, target_is_directory=True)
    packages = [option for room in ROOMS for option in ("-p", f"zcbench.{room}")]
    modules = [option for path in sorted(ROOT.glob("*.py")) for option in ("-m", f"zcbench.{path.stem}")]
    modules[modules.index("zcbench.__init__")] = "zcbench"
    command = [sys.executable, "-m", "mypy", f"--config-file={ROOT / 'pyproject.toml'}", *packages, *modules]
    sys.exit(subprocess.run(command, env={**os.environ, "MYPYPATH": folder}, check=False).returncode)
