"""The fastqps command: exit codes, suggestions, and that light commands stay light."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from checkpoints import write_checkpoint
from paths import ROOT
from word_files import write_words

from fastqps.cli import COMMANDS, main
from fastqps.config import SETTINGS
from fastqps.terminal import plainly, say_to


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: COMMAND"),
        (["sevre"], "invalid choice: 'sevre'"),
        (["serve", "--prot", "1"], "unknown argument --prot; did you mean --port?"),
        (["serve", "--max-batch-item=1"], "did you mean --max-batch-items?"),
        (["serve", "--port"], "expected one argument"),
        (["serve", "--port", "x"], "--port: 'x' is not a whole number"),
        (["minilm", "grammar", "--any-model-name"], "--any-model-name is for a server of one model; this one has 2"),
        (["serve", "--address", "::"], "unknown argument --address (see: fastqps serve --help)"),
        (["serve", "minilm", "--port", "0", "qualm"], "unknown argument qualm (see: fastqps serve --help)"),
        (["top", "--json"], "unknown argument --json"),
        (["serve", "--config", "missing.toml"], "cannot read the configuration file missing.toml"),
    ],
)
def test_usage_errors(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("fastqps: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "form", "is_json"),
    [
        (["serve", "--log-format", "json", "--hots=0.0.0.0"], "text", True),
        (["--hots=0.0.0.0", "--log-format=json"], "text", True),
        (["serve", "--hots=0.0.0.0"], "json", True),
        (["serve", "--log-format=json", "--log-format=text", "--hots=0.0.0.0"], "json", False),
        (["serve", "--port", "x"], "json", True),
        (["serve", "--max-num-seqs", "8"], "json", True),
        (["serve", "--log-format"], "text", False),
    ],
)
def test_usage_errors_have_the_form_of_the_log(
    arguments: list[str], form: str, is_json: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTQPS_LOG_FORMAT", form)
    assert main(arguments) == 2
    say_to(plainly)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("{" if is_json else "fastqps: ")
    if is_json:
        assert json.loads(line).keys() == {"time", "level", "process", "message"} and '"level": "error"' in line


def test_no_device(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert main(["serve", "--device", "cuda"]) == 3
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("fastqps: --device cuda: ")


def test_models_may_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "x=/y", "z", "--model", "w", "--print-config"]) == 0
    assert tomllib.loads(capsys.readouterr().out)["model"] == ["x=/y", "z", "w"]


def test_the_version_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--version"])
    assert re.fullmatch(r"fastqps \d+\.\d+\.\d+\n", capsys.readouterr().out)


def test_the_first_help_fits_on_a_screen(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 24 and max(map(len, lines)) <= 80
    assert [name for name in COMMANDS if not any(line.startswith(f"    {name} ") for line in lines)] == []


def test_help_shows_every_setting_once_and_the_common_ones_first(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["serve", "--help"])
    help = capsys.readouterr().out
    flags = re.findall(r"^  (--[a-z-]+)", help, re.MULTILINE)
    assert sorted(flags) == sorted(["--config", "--print-config", *(f"--{setting.key}" for setting in SETTINGS)])
    assert flags.index("--model") < flags.index("--port") < flags.index("--pin")
    assert "--port PORT" in help and "COUNT" not in help


def test_print_config(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--print-config", "--model", "x=/y", "--model", "z", "--rerun", "off", "--port=0"]) == 0
    found = tomllib.loads(capsys.readouterr().out)
    assert found["model"] == ["x=/y", "z"]
    assert (found["rerun"], found["port"], found["default-timeout"]) == (False, 0, "10s")
    assert main(["serve", "--print-config", "--port=8000"]) == 0  # that of HTTP, which every port speaks
    assert tomllib.loads(capsys.readouterr().out)["http-port"] == "off"


def test_doctor() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fastqps", "doctor", "--json"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    found = json.loads(done.stdout)
    names = [finding["name"] for finding in found["findings"]]
    assert len(names) == len(set(names))
    wanted = {
        "cores",
        "memory",
        "memfd",
        "huge pages",
        "locked memory",
        "open files",
        "bfloat16",
        "cpu governor",
    }
    assert wanted <= set(names)
    assert {"gpu"} <= set(names) or {"gpu driver", "cuda:0", "cuda", "triton", "mps"} <= set(names)
    lacks = [finding for finding in found["findings"] if finding["level"] == "lack"]
    assert done.returncode == (1 if lacks else 0)
    assert all(finding["advice"] for finding in found["findings"] if finding["level"] != "ok")


def test_light_commands_import_neither_torch_nor_grpc() -> None:
    code = (
        "import sys; from fastqps.cli import main; main(['serve', '--print-config']);"
        "print([m for m in ('torch', 'grpc', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.endswith("[]\n"), done.stdout + done.stderr


def test_predict_here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["predict", "--device", "null", "one", "two"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [len(line["embedding"]) for line in lines] == [384, 384]
    monkeypatch.setattr("sys.stdin", iter(["a\tb\n", "c\td\n", "e\tf"]))
    assert main(["predict", "--device", "null", "--pair"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    for flags, length in ((["--json"], 384), ([], 9)):
        assert main(["predict", "--device", "null", "one", *flags]) == 0
        line = capsys.readouterr().out
        assert len(json.loads(line)["embedding"]) == length and ("376 more; all with --json" in line) == (length == 9)


def test_predict_reads_a_schema_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = {"const": "yes", "x-guidance": {"whitespace_flexible": False}}
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    predict = ["predict", "--device", "cpu", "--model", "grammar", "--json-schema"]
    assert main([*predict, f"@{tmp_path / 'schema.json'}", "It is"]) == 0
    assert capsys.readouterr().out == '"yes"\n'
    assert main([*predict, "@none.json", "It is"]) == 2
    assert "--json-schema @none.json: cannot be read: No such file" in capsys.readouterr().err


def test_predict_names_its_own_flag_for_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_checkpoint(tmp_path, "bert", "classify", num_labels=1, vocab_size=300)
    write_words(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    sigmoid = {"activation_fn": "torch.nn.modules.activation.Sigmoid"}
    (tmp_path / "config.json").write_text(json.dumps(config | {"sentence_transformers": sigmoid}))
    model = ["predict", "--device", "null", "--model", str(tmp_path)]
    assert main([*model, "a", "b"]) == 2
    error = capsys.readouterr().err
    assert error.endswith("scores pairs of texts; give pairs with --pair\n"), error
    assert main([*model, "--pair", "a", "b"]) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--pair", "--device", "null", "a"], 2, "1 texts do not make pairs"),
        (["--address", "127.0.0.1:1", "--device", "null", "a"], 2, "a server (--address) has chosen its own"),
        (["--address", "127.0.0.1:1", "--quantization", "fp8", "a"], 2, "a server (--address) has chosen its own"),
        (["--device", "cuda:99", "a"], 3, "--device cuda:99: "),
        (["--device", "gpu", "a"], 3, "no device 'gpu'"),
        (["--model", "/nowhere", "a"], 4, "no model '/nowhere'"),
        (["--address", "127.0.0.1:1", "a"], 1, "no server can be reached: ipv4:127.0.0.1:1"),
        (["--device", "null", "--group", "run 7", "a"], 2, "--group is for a server: add --address HOST:PORT"),
        (["--address", "localhost", "a"], 2, "'localhost' has no port"),
        (
            ["--address", "127.0.0.1:1", "--tls-ca", "/nowhere", "a"],
            2,
            "--tls-ca /nowhere: cannot be read: No such file",
        ),
        (["--address", "127.0.0.1:1", "--tls-ca", __file__, "a"], 2, "test_cli.py: it holds no certificate in PEM"),
        (["--device", "null", "word " * 1000], 2, "(--truncate cuts it)"),
        (["--device", "null", "one", "\udcff"], 2, "a text is not UTF-8"),
        (["--address", "127.0.0.1:1", "--pair", "one", "\udcff"], 2, "a text is not UTF-8"),
    ],
)
def test_predict_errors(arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", *arguments]) == code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("errors", ["surrogateescape", "strict"])
def test_lines_that_are_not_utf8(
    errors: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"one\n\xff\n"), encoding="utf-8", errors=errors))
    assert main(["predict", "--device", "null"]) == 2
    assert "a text is not UTF-8" in capsys.readouterr().err


def test_ctrl_c_while_a_command_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fastqps.cli.import_module", interrupted)
    assert main(["bench", "rate"]) == 130
