# Prints how many bytes of global memory a launch has requested.
import sys

from read import parse


def main(path):
    _, _, records = parse(path)
    threads = [record for cta in records["GMEMBytes"] for slot in cta for record in slot]
    plain = sum(record.sync_bytes for record in threads)
    copied = sum(record.async_bytes for record in threads)
    print(f"threads: {len(threads)}, loads and stores: {plain} bytes, asynchronous copies: {copied} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
