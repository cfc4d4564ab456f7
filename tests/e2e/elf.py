"""Reads what tests need of ELF files, PE files and portable PDBs, and writes debug files for libraries that have none."""

import struct
import uuid
from pathlib import Path


def segments(data):
    """(type, flags, offset, address, bytes in the file, bytes in memory) of each program header."""
    at, = struct.unpack_from("<Q", data, 32)
    size, n = struct.unpack_from("<HH", data, 54)
    for i in range(n):
        kind, flags, offset, va, _, in_file, in_memory = struct.unpack_from("<IIQQQQQ", data, at + i * size)
        yield kind, flags, offset, va, in_file, in_memory


def build_id(path):
    data = Path(path).read_bytes()
    for kind, _, offset, _, size, _ in segments(data):
        end = offset + size
        while kind == 4 and offset + 12 <= end:  # PT_NOTE
            name, desc, note = struct.unpack_from("<III", data, offset)
            start = offset + 12 + (name + 3 & ~3)
            if note == 3 and data[offset + 12:offset + 16] == b"GNU\0":
                return data[start:start + desc].hex()
            offset = start + (desc + 3 & ~3)
    return None


def debug_file(library, name, step=4096):
    """A debug file for a stripped library: the same build id, and its code named in pieces: name(piece)."""
    data = Path(library).read_bytes()
    names, symbols = b"\0", b"\0" * 24
    code = [(va, size) for kind, flags, _, va, _, size in segments(data) if kind == 1 and flags & 1]
    for va, size in code:
        for i, start in enumerate(range(va, va + size, step)):
            symbols += struct.pack("<IBBHQQ", len(names), 0x12, 0, 1, start, min(step, va + size - start))
            names += name(i).encode() + b"\0"
    note = struct.pack("<III", 4, 20, 3) + b"GNU\0" + bytes.fromhex(build_id(library))
    titles = b"\0.note.gnu.build-id\0.symtab\0.strtab\0.shstrtab\0"
    sections, body = [(0,) * 10], b""
    for title, kind, bytes_, link, size in ((1, 7, note, 0, 0), (20, 2, symbols, 3, 24), (28, 3, names, 0, 0), (36, 3, titles, 0, 0)):
        body += b"\0" * (-len(body) % 8)
        sections.append((title, kind, 0, 0, 64 + len(body), len(bytes_), link, 0, 8, size))
        body += bytes_
    body += b"\0" * (-len(body) % 8)
    head = b"\x7fELF\2\1\1" + b"\0" * 9 + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, 64 + len(body), 0, 64, 56, 0, 64, 5, 4)
    return head + body + b"".join(struct.pack("<IIQQQQIIQQ", *s) for s in sections)


def pdb_key(pdb):
    """Where a symbol server has a portable PDB, by the id in its #Pdb stream."""
    data = Path(pdb).read_bytes()
    length, = struct.unpack_from("<I", data, 12)
    n, = struct.unpack_from("<H", data, 16 + length + 2)
    at = 16 + length + 4
    for _ in range(n):
        offset, _ = struct.unpack_from("<II", data, at)
        end = data.index(b"\0", at + 8)
        if data[at + 8:end] == b"#Pdb":
            name = Path(pdb).name.lower()
            return f"{name}/{uuid.UUID(bytes_le=data[offset:offset + 16]).hex}FFFFFFFF/{name}"
        at += 8 + (end - at - 8) // 4 * 4 + 4
    raise ValueError(f"{pdb} has no #Pdb stream")
