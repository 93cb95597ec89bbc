"""Writes the Python code of proto/: `make proto`. What it writes is checked in, so users need no protobuf compiler.

* fastqps/v1/predict_pb2.py, .pyi and predict_pb2_grpc.py: the public contract, as protoc writes it.
* fastqps/api/descriptors.py: each public .proto as a serialized FileDescriptorProto, for reflection and health.
  These are loaded into a pool of their own (fastqps/api/reflection.py), because a process may also import
  grpcio-health-checking or grpcio-reflection, which put the same names into protobuf's default pool.
"""

import base64
import sys
from pathlib import Path

from google.protobuf import descriptor_pb2
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PREDICT = "fastqps/v1/predict.proto"
INTERNAL = "fastqps/v1/step.proto"  # csrc/contract reads and writes it by hand
OTHERS = [
    "grpc/health/v1/health.proto",
    "grpc/reflection/v1/reflection.proto",
    "grpc/reflection/v1alpha/reflection.proto",
    "inference/grpc_service.proto",
    "tei/tei.proto",
]
HEAD = '''"""The .proto files as serialized FileDescriptorProto, by file name. Written by `make proto`; do not edit."""

from base64 import b64decode

from ..v1 import predict_pb2

FILES: dict[str, bytes] = {
    "fastqps/v1/predict.proto": predict_pb2.DESCRIPTOR.serialized_pb,
'''


def run_protoc(*arguments: str) -> None:
    command = ["protoc", f"-I{ROOT / 'proto'}", *arguments]
    if protoc.main(command) != 0:
        sys.exit(f"failed: {' '.join(command)}")


def compile_files(folder: Path) -> list[descriptor_pb2.FileDescriptorProto]:
    """All files, without comments and json names; `folder` takes an intermediate file."""
    out = folder / "descriptors.binpb"
    run_protoc(f"--descriptor_set_out={out}", PREDICT, INTERNAL, *OTHERS)
    files = list(descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file)
    for file in files:
        for message in [*file.message_type, *(each for outer in file.message_type for each in outer.nested_type)]:
            for field in message.field:
                field.ClearField("json_name")
    return files


def literal(data: bytes, width: int = 100) -> str:
    text = base64.b64encode(data).decode()
    return "\n".join(f'        "{text[at : at + width]}"' for at in range(0, len(text), width))


def main() -> None:
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    run_protoc(f"--python_out={ROOT}", f"--pyi_out={ROOT}", f"--grpc_python_out={ROOT}", PREDICT)
    # protoc imports by the name of the package, but fastqps-client installs these files as fastqps_client.v1.
    stubs = ROOT / "fastqps" / "v1" / "predict_pb2_grpc.py"
    stubs.write_text(stubs.read_text().replace("from fastqps.v1 import predict_pb2", "from . import predict_pb2"))
    files = [(file.name, literal(file.SerializeToString())) for file in compile_files(build) if file.name in OTHERS]
    entries = [f'    "{name}": b64decode(\n{text}\n    ),\n' for name, text in files]
    (ROOT / "fastqps" / "api" / "descriptors.py").write_text(HEAD + "".join(entries) + "}\n")


if __name__ == "__main__":
    main()
