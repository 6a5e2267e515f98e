"""Joins the jars of Beam's Flink runner into one job-server jar that `java -jar` starts.

    python assemble_job_server.py JARS_FOLDER OUT.jar

What Beam publishes as `beam-runners-flink-*-job-server` is the same classes in one file.
Service files (META-INF/services) of the same name are joined; of other doubles the first
wins, in order of the jars' names. Signatures are dropped, since the contents changed.
"""

import sys
import zipfile
from pathlib import Path

MAIN = "org.apache.beam.runners.flink.FlinkJobServerDriver"
# A fixed time keeps the jar the same from run to run.
STAMP = (2020, 1, 1, 0, 0, 0)


def assemble(folder: Path, out: Path) -> int:
    """Writes the jar and returns its number of entries."""
    services: dict[str, list[bytes]] = {}
    seen = {"META-INF/MANIFEST.MF"}
    temporary = out.with_suffix(".tmp")
    with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as jar:
        manifest = f"Manifest-Version: 1.0\nMain-Class: {MAIN}\nMulti-Release: true\n\n"
        jar.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF", STAMP), manifest)
        for source in sorted(folder.glob("*.jar")):
            with zipfile.ZipFile(source) as part:
                for entry in part.infolist():
                    name = entry.filename
                    if name.endswith(("/", ".SF", ".RSA", ".DSA", "module-info.class")):
                        continue
                    if name.startswith("META-INF/services/"):
                        services.setdefault(name, []).append(part.read(entry))
                    elif name not in seen:
                        seen.add(name)
                        jar.writestr(zipfile.ZipInfo(name, STAMP), part.read(entry))
        for name, contents in sorted(services.items()):
            lines = b"\n".join(contents).splitlines()
            unique = sorted({line.strip() for line in lines if line.strip()})
            jar.writestr(zipfile.ZipInfo(name, STAMP), b"\n".join(unique) + b"\n")
    temporary.rename(out)
    return len(seen) + len(services)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(f"{sys.argv[2]}: {assemble(Path(sys.argv[1]), Path(sys.argv[2]))} entries")
