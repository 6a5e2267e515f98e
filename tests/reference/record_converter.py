"""Runs DeepMind's compiled converter over captures; for Python 3.10 with the pysc2 wheel.

    python record_converter.py INPUTS_DIR OUTPUTS_DIR

Per INPUTS_DIR/NAME.npz (the layout of docs/converter.md): OUTPUTS_DIR/NAME.npz with the arrays
and OUTPUTS_DIR/NAME.json with `outcome` (ok, exception, process_abort), `stage`, `step` and
`message`. A failed check inside the converter kills the process, so each capture gets its own.
Needs nothing of starmill.
"""

import io
import json
import os
import sys
import zipfile
from pathlib import Path

import numpy as np
from google.protobuf import json_format
from pysc2.env.converter import converter
from pysc2.env.converter.proto import converter_pb2
from s2clientprotocol import sc2api_pb2


def save(path, arrays):
    with zipfile.ZipFile(path, "w", compression=zipfile.ZIP_LZMA) as archive:
        for key in sorted(arrays):
            member = io.BytesIO()
            np.lib.format.write_array(member, np.ascontiguousarray(arrays[key]))
            info = zipfile.ZipInfo(key + ".npy", date_time=(2020, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_LZMA
            archive.writestr(info, member.getvalue())


def spec_json(specs):
    out = {}
    for key, spec in specs.items():
        entry = {"dtype": np.dtype(spec.dtype).name, "shape": list(spec.shape)}
        entry["name"] = spec.name
        for bound in ("minimum", "maximum"):
            if not hasattr(spec, bound):
                continue
            value = np.asarray(getattr(spec, bound))
            if value.ndim == 2:
                assert (value == value[:1]).all()
                entry[bound + "_per_column"] = value[0].tolist()
            else:
                assert (value == value.reshape(-1)[0]).all()
                entry[bound] = int(value.reshape(-1)[0])
        out[key] = entry
    return out


class Case:
    def __init__(self, path):
        with np.load(path) as file:
            self.arrays = {key: file[key] for key in file.files}

    def text(self, key):
        return json.loads(self.arrays[key].tobytes())

    def message(self, key, step):
        present = self.arrays.get(key + "_present")
        if present is not None and not present[step]:
            return None
        offsets = self.arrays[key + "_offsets"]
        return self.arrays[key][offsets[step] : offsets[step + 1]].tobytes()

    def environment(self):
        info = converter_pb2.EnvironmentInfo()
        info.game_info.ParseFromString(self.arrays["game_info"].tobytes())
        if "replay_info" in self.arrays:
            info.replay_info.ParseFromString(self.arrays["replay_info"].tobytes())
            info.replay_info.SetInParent()
        return info

    def observation(self, step):
        out = converter_pb2.Observation()
        for field, kind in (
            ("player", sc2api_pb2.ResponseObservation),
            ("opponent", sc2api_pb2.ResponseObservation),
            ("force_action", sc2api_pb2.RequestAction),
        ):
            data = self.message(field, step)
            if data is not None:
                getattr(out, field).CopyFrom(kind.FromString(data))
                getattr(out, field).SetInParent()
        if self.arrays["delay_present"][step]:
            out.force_action_delay = int(self.arrays["delay"][step])
        return out


def run(case, note):
    """Returns the arrays; `note` is told where it is."""
    note("make_converter", -1)
    settings = json_format.ParseDict(
        case.text("settings_json"), converter_pb2.ConverterSettings()
    )
    peer = converter.Converter(settings, case.environment())
    agent = (
        case.text("agent_actions_json") if "agent_actions_json" in case.arrays else None
    )
    steps, encoded, delays = [], [], []
    for step in range(len(case.arrays["delay"])):
        note("convert_observation", step)
        result = peer.convert_observation(case.observation(step))
        action = {k[7:]: v for k, v in result.items() if k.startswith("action/")}
        if agent is not None:
            action = {k: np.asarray(v, np.int32) for k, v in agent[step].items()}
        if not action:
            raise ValueError("no action in the observation")
        note("convert_action", step)
        back = peer.convert_action(action)
        steps.append(
            {k: np.squeeze(v) if v.shape == (1,) else v for k, v in result.items()}
        )
        encoded.append(back.request_action.SerializeToString(deterministic=True))
        delays.append(back.delay)
    note("done", len(steps))
    out = {key: np.stack([step[key] for step in steps]) for key in steps[0]}
    out["__encoded_action"] = np.frombuffer(b"".join(encoded), np.uint8)
    out["__encoded_action_offsets"] = np.cumsum([0] + [len(e) for e in encoded])
    out["__encoded_delay"] = np.array(delays, np.int32)
    described = {
        "action": spec_json(peer.action_spec()),
        "observation": spec_json(peer.observation_spec()),
    }
    text = json.dumps(described, sort_keys=True).encode()
    out["__spec_json"] = np.frombuffer(text, np.uint8)
    return out


def child(source, target, write):
    def note(stage, step, outcome="process_abort", message=""):
        os.pwrite(
            write,
            json.dumps(
                {"outcome": outcome, "stage": stage, "step": step, "message": message}
            )
            .encode()
            .ljust(2000),
            0,
        )
        note.at = (stage, step)

    try:
        arrays = run(Case(source), note)
        save(target, arrays)
        note("done", len(arrays["__encoded_delay"]), "ok")
    except Exception as error:  # noqa: BLE001  # whatever it raises is the recording
        note(*note.at, "exception", str(error)[:500])


def main(inputs, outputs):
    outputs.mkdir(exist_ok=True, parents=True)
    for source in sorted(inputs.glob("*.npz")):
        told = outputs / (source.stem + ".json")
        write = os.open(told, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        log = os.open(outputs / "log.txt", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        pid = os.fork()
        if pid == 0:
            os.dup2(log, 1)
            os.dup2(log, 2)
            child(source, outputs / source.name, write)
            os._exit(0)
        os.waitpid(pid, 0)
        result = json.loads(told.read_text())
        if result["outcome"] == "process_abort":
            lines = (outputs / "log.txt").read_text(errors="replace").splitlines()
            failed = [line for line in lines if "Check failed" in line] or lines[:1]
            result["message"] = "".join(failed)[:500]
        told.write_text(json.dumps(result))
        os.close(write)
        os.close(log)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
