"""Certificates for tests, made by openssl for localhost and 127.0.0.1."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest


class Pair(NamedTuple):
    cert: Path
    key: Path

    def flags(self) -> tuple[str, str]:
        return f"--cert={self.cert}", f"--key={self.key}"

    def copy_to(self, other: Pair) -> None:
        shutil.copyfile(self.cert, other.cert)
        shutil.copyfile(self.key, other.key)


def make_certificate(folder: Path, name: str, *options: str) -> Pair:
    """Make a self-signed certificate, good for a day. Skips without openssl."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is missing: install the package openssl")
    pair = Pair(folder / f"{name}.pem", folder / f"{name}.key")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         *(options or ("-nodes",)), "-keyout", pair.key, "-out", pair.cert, "-days", "1",
         "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    return pair


def make_expired_certificate(folder: Path, name: str) -> Pair:
    """Make a certificate that ended yesterday. Its issuer is itself."""
    pair = make_certificate(folder, name)
    subprocess.run(
        ["openssl", "x509", "-in", pair.cert, "-signkey", pair.key, "-days", "-1",
         "-out", pair.cert],
        check=True, capture_output=True,
    )  # fmt: skip
    return pair
