"""Makes empty wheels for the packages that a runtime already has, so that pip does not download these
packages. pip prefers the empty wheels to those of PyPI because of their build number. `sandmill python
vendor` runs this."""

import sys
import zipfile

folder, *packages = sys.argv[1:]
for package in packages:
    name, version = package.split("==")
    base = name.replace("-", "_")
    info = f"{base}-{version}.dist-info"
    with zipfile.ZipFile(f"{folder}/{base}-{version}-999-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: sandmill\nRoot-Is-Purelib: true\nTag: py3-none-any\nBuild: 999\n")
        wheel.writestr(f"{info}/RECORD", "")
