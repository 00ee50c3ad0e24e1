"""Progress bars, curves, tables of networks, and event files read back by a reader of its own."""
import binascii
import io
import os
import pty
import struct
import subprocess
import sys
import xml.etree.ElementTree
import zlib

import numpy as np
import pytest

import facula
from facula.utils.tensorboard import SummaryWriter
from seed import SEED


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def fields(message):
    """The fields of a message of protocol buffers: number -> list of values."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
    while at < len(message):
        key = varint()
        if key & 7 == 0:
            value = varint()
        elif key & 7 == 1:
            value, at = struct.unpack_from("<d", message, at)[0], at + 8
        elif key & 7 == 5:
            value, at = struct.unpack_from("<f", message, at)[0], at + 4
        else:
            assert key & 7 == 2
            length = varint()
            value, at = message[at:at + length], at + length
        found.setdefault(key >> 3, []).append(value)
    return found


def events(folder):
    """All events of the files in a folder."""
    for name in sorted(os.listdir(folder)):
        data, at = (folder / name).read_bytes(), 0
        while at < len(data):
            length, check = struct.unpack_from("<QI", data, at)
            assert check == masked(data[at:at + 8])
            body = data[at + 12:at + 12 + length]
            assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked(body)
            yield fields(body)
            at += 16 + length


def decode_png(data):
    """Pixels of a PNG without any library but zlib."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, body = 8, b""
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        chunk = data[at + 8:at + 8 + length]
        assert struct.unpack_from(">I", data, at + 8 + length)[0] == binascii.crc32(kind + chunk)
        if kind == b"IHDR":
            width, height, depth, color = struct.unpack_from(">IIBB", chunk)
        elif kind == b"IDAT":
            body += chunk
        at += 12 + length
    channels = {0: 1, 2: 3, 4: 2, 6: 4}[color]
    assert depth == 8
    rows = np.frombuffer(zlib.decompress(body), np.uint8).reshape(height, 1 + width * channels)
    pixels = np.zeros((height, width * channels), np.uint8)
    for y in range(height):
        assert rows[y, 0] == (2 if y else 0)
        pixels[y] = rows[y, 1:] + (pixels[y - 1] if y else 0)
    return pixels.reshape(height, width, channels)


def test_event_files(tmp_path):
    random = np.random.default_rng(SEED)
    values, image = random.normal(size=1000), random.integers(0, 256, (3, 9, 7), dtype=np.uint8)
    with SummaryWriter(tmp_path, filename_suffix=".x") as writer:
        for step in range(5):
            writer.add_scalar("loss/train", 1 / (step + 1), step, walltime=1000.5 + step)
        writer.add_scalars("both", {"a": 1, "b": facula.tensor(2.0)}, 7)
        writer.add_histogram("weights", facula.from_numpy(values), 3)
        writer.add_text("note", "**bold** ü", 1)
        writer.add_image("digit", facula.from_numpy(image), 2)
        writer.add_image("gray", facula.rand(4, 5), dataformats="HW")
    found = list(events(tmp_path))
    assert found[0][3] == [b"brain.Event:2"]
    by_tag = {}
    for event in found[1:]:
        value = fields(fields(event[5][0])[1][0])
        by_tag.setdefault(value[1][0].decode(), []).append((event[2][0], event[1][0], value))
    losses = by_tag["loss/train"]
    assert [(step, time) for step, time, _ in losses] == [(i, 1000.5 + i) for i in range(5)]
    np.testing.assert_allclose([value[2][0] for _, _, value in losses], [1 / (i + 1) for i in range(5)], rtol=1e-7)
    assert by_tag["both/b"][0][2][2] == [2.0]
    histogram = fields(by_tag["weights"][0][2][5][0])
    limits, counts = np.frombuffer(histogram[6][0]), np.frombuffer(histogram[7][0])
    np.testing.assert_allclose([histogram[i][0] for i in (1, 2, 3, 4, 5)],
                               [values.min(), values.max(), 1000, values.sum(), (values ** 2).sum()], rtol=1e-12)
    assert counts.sum() == 1000 and (np.diff(limits) > 0).all()
    expected = np.histogram(values, np.concatenate([[-np.inf], limits]))[0]
    np.testing.assert_array_equal(counts, expected)
    text = by_tag["note/text_summary"][0][2]
    assert fields(text[8][0])[8] == [("**bold** ü").encode()]
    assert fields(fields(text[9][0])[1][0])[1] == [b"text"]
    picture = fields(by_tag["digit"][0][2][4][0])
    assert (picture[1], picture[2], picture[3]) == ([9], [7], [3])
    np.testing.assert_array_equal(decode_png(picture[4][0]), image.transpose(1, 2, 0))


def test_event_files_open_in_tensorboard(tmp_path):
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", 0.5, 3)
        writer.add_histogram("h", facula.randn(100), 1)
        writer.add_image("i", facula.rand(3, 4, 4))
        writer.add_text("t", "words")
    data = loader.EventAccumulator(str(tmp_path))
    data.Reload()
    assert [(e.step, e.value) for e in data.Scalars("loss")] == [(3, 0.5)]
    assert data.Tags()["histograms"] == ["h"] and data.Tags()["images"] == ["i"]


def test_curves_are_pictures(tmp_path):
    curve = facula.LossCurve("A & B", width=400, height=300)
    for i in range(200):
        curve.add("train", i, 3 / (1 + i))
    curve.add("valid <x>", 0, facula.tensor(2.0))
    curve.add("valid <x>", 199, float("nan"))
    root = xml.etree.ElementTree.fromstring(curve.svg())
    assert root.tag.endswith("svg") and root.get("width") == "400"
    assert "valid <x>" in "".join(root.itertext())
    curve.save(tmp_path / "c.png")
    pixels = decode_png((tmp_path / "c.png").read_bytes())
    assert pixels.shape == (300, 400, 3)
    blue = (np.abs(pixels.astype(int) - [31, 119, 180]).sum(-1) < 30)
    assert blue.sum() > 100  # the curve is there
    with pytest.raises(facula.ArgumentError, match="neither with .svg nor with .png"):
        curve.save(tmp_path / "c.jpg")


def test_png_holds_any_pixels(tmp_path):
    random = np.random.default_rng(SEED)
    for shape in [(1, 1, 1), (1, 3, 300), (3, 17, 5), (4, 2, 1)]:
        image = random.integers(0, 256, shape, dtype=np.uint8)
        image[..., : shape[2] // 2] = 7  # runs
        folder = tmp_path / str(shape)
        with SummaryWriter(folder) as writer:
            writer.add_image("x", facula.from_numpy(image))
        png = fields(fields(fields(list(events(folder))[1][5][0])[1][0])[4][0])[4][0]
        np.testing.assert_array_equal(decode_png(png), image.transpose(1, 2, 0))


def test_progress_is_quiet_without_a_terminal(capsys):
    bar = facula.progress(range(3), "epoch")
    assert [i for i in bar] == [0, 1, 2] and bar.done == 3 and len(bar) == 3
    bar = facula.progress(total=10)
    bar.step(4, loss=facula.tensor(0.5))
    assert bar.values == {"loss": 0.5} and "40%" in bar.line(80) and "loss 0.5" in bar.line(80)
    assert capsys.readouterr() == ("", "")
    shown = io.StringIO()
    with facula.progress(total=2, label="x", shown=True, file=shown) as bar:
        bar.step(2)
        bar.print("a line")
    assert shown.getvalue().startswith("\rx ") and "\r\x1b[Ka line\n" in shown.getvalue()


def test_progress_shows_on_a_terminal():
    code = "import facula, time\nfor i in facula.progress(range(5), 'walk', interval=0): pass\n"
    main, other = pty.openpty()
    done = subprocess.run([sys.executable, "-c", code], stderr=other, stdout=subprocess.PIPE, check=True,
                          env=dict(os.environ, TERM="xterm"))
    os.close(other)
    said = b""
    while True:
        try:
            part = os.read(main, 4096)
        except OSError:
            break
        if not part:
            break
        said += part
    os.close(main)
    assert done.stdout == b"" and b"walk 100%" in said and b"5/5" in said and said.endswith(b"\r\n")


def test_summary_counts_each_tensor_once():
    nn = facula.nn
    if not hasattr(nn, "Linear"):
        pytest.skip("no modules in Python yet")
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    net[2].bias.requires_grad_(False)
    net.train()
    made = facula.summary(net, input_size=(3, 4))
    assert made.total_params == 4 * 8 + 8 + 8 * 2 + 2 and made.trainable_params == made.total_params - 2
    assert made.total_bytes == 4 * made.total_params
    text = str(made)
    assert "[3, 8]" in text and "[3, 2]" in text and "parameters: 58 (trainable: 56)" in text
    assert net.training and net[0].training
    assert "[3, 8]" not in str(facula.summary(net))
