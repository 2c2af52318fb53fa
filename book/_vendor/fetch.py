r"""Fetch what the book carries along (plotly, Temml, MiniSearch, fonts) from npm, at the versions in vendor.json.

python book/_vendor/fetch.py            fetch, check against the recorded sha256, put in place
python book/_vendor/fetch.py --record   the same after a change of version, and record the new sha256
"""

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("vendor.json")


def main(record: bool) -> None:
    entries = json.loads(LIST.read_text("utf-8"))
    for entry in entries:
        package = f"{entry['npm']}@{entry['version']}"
        with tempfile.TemporaryDirectory() as folder:
            packed = subprocess.run(
                ["npm", "pack", "--silent", package], cwd=folder, check=True, text=True, capture_output=True
            )
            with tarfile.open(Path(folder) / packed.stdout.split()[-1]) as archive:
                for name, source in entry["sources"].items():
                    content = archive.extractfile(f"package/{source}").read()
                    digest = hashlib.sha256(content).hexdigest()
                    if record:
                        entry["files"][name] = digest
                    elif digest != entry["files"][name]:
                        sys.exit(f"{package}: {source} has sha256 {digest}, recorded is {entry['files'][name]}")
                    (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
                    (ROOT / name).write_bytes(content)
                    print(f"{name} from {package}")
    if record:
        LIST.write_text(json.dumps(entries, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main("--record" in sys.argv[1:])
