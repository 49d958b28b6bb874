"""Hashes for hashcat to find, each made here by other code than hashcat's."""

import crypt
import hashlib
import hmac
import struct
import warnings

WORD = "margay42"


def rotated(value, bits):
    return ((value << bits) | (value >> (32 - bits))) & 0xFFFFFFFF


def md4(message):
    """MD4 (RFC 1320), which OpenSSL no longer offers."""
    padded = message + b"\x80" + bytes((55 - len(message)) % 64) + struct.pack("<Q", 8 * len(message))
    state = [0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476]
    rounds = (
        (lambda x, y, z: (x & y) | (~x & z), 0, (3, 7, 11, 19), list(range(16))),
        (lambda x, y, z: (x & y) | (x & z) | (y & z), 0x5A827999, (3, 5, 9, 13), [i % 4 * 4 + i // 4 for i in range(16)]),
        (lambda x, y, z: x ^ y ^ z, 0x6ED9EBA1, (3, 9, 11, 15), [int(f"{i:04b}"[::-1], 2) for i in range(16)]),
    )
    for start in range(0, len(padded), 64):
        words = struct.unpack("<16I", padded[start : start + 64])
        a, b, c, d = state
        for mix, constant, shifts, order in rounds:
            for step, index in enumerate(order):
                total = (a + mix(b, c, d) + words[index] + constant) & 0xFFFFFFFF
                a, b, c, d = d, rotated(total, shifts[step % 4]), b, c
        state = [(old + new) & 0xFFFFFFFF for old, new in zip(state, (a, b, c, d))]
    return struct.pack("<4I", *state)


def ntlm():
    return md4(WORD.encode("utf-16-le"))


def wpa():
    """A PMKID of a network (IEEE 802.11i)."""
    point, station, name = bytes.fromhex("4a5b6c7d8e9f"), bytes.fromhex("0a1b2c3d4e5f"), b"margay-net"
    master = hashlib.pbkdf2_hmac("sha1", WORD.encode(), name, 4096, 32)
    pmkid = hmac.digest(master, b"PMK Name" + point + station, "sha1")[:16]
    return f"WPA*01*{pmkid.hex()}*{point.hex()}*{station.hex()}*{name.hex()}***"


def net_ntlm():
    """A NetNTLMv2 answer (MS-NLMP 3.3.2)."""
    user, domain, challenge, blob = "cat", "FOREST", bytes.fromhex("1122334455667788"), bytes(range(1, 45))
    key = hmac.digest(ntlm(), (user.upper() + domain).encode("utf-16-le"), "md5")
    proof = hmac.digest(key, challenge + blob, "md5")
    return f"{user}::{domain}:{challenge.hex()}:{proof.hex()}:{blob.hex()}"


def modes():
    """Number, name and hash of each mode."""
    assert md4(b"abc").hex() == "a448017aaf21d8525fc10ae87aa6729d", "RFC 1320, A.5"
    word = WORD.encode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        salted = {prefix: crypt.crypt(WORD, salt) for prefix, salt in SALTS.items()}
    return (
        (0, "MD5", hashlib.md5(word).hexdigest()),
        (100, "SHA1", hashlib.sha1(word).hexdigest()),
        (1000, "NTLM", ntlm().hex()),
        (1400, "SHA2-256", hashlib.sha256(word).hexdigest()),
        (1700, "SHA2-512", hashlib.sha512(word).hexdigest()),
        (500, "md5crypt", salted["md5crypt"]),
        (1800, "sha512crypt", salted["sha512crypt"]),
        (3200, "bcrypt", salted["bcrypt"]),
        (5600, "NetNTLMv2", net_ntlm()),
        (22000, "WPA-PMKID", wpa()),
    )


SALTS = {"md5crypt": "$1$catnip00$", "sha512crypt": "$6$catnip00catnip00$", "bcrypt": "$2b$04$abcdefghijklmnopqrstuu"}
