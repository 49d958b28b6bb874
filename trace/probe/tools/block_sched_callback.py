# Prints how busy each multiprocessor was: the number of CTAs, the mean of the cycles in which CTAs ran, and the mean of
# the cycles between the end of a CTA and the start of the next one.
import sys

from read import parse


def busy_and_idle(spans):
    """Returns the cycles in which at least one of the spans runs, and the cycles between them."""
    busy = idle = 0
    end = None
    for first, last in sorted(spans):
        if end is None or first > end:
            idle += 0 if end is None else first - end
            busy += last - first
            end = last
        elif last > end:
            busy += last - end
            end = last
    return busy, idle


def main(path):
    header, _, records = parse(path)
    units = {}
    for warps in records["block_sched"]:
        runs = [record for warp in warps for record in warp]
        first = min(run.start for run in runs)
        last = max(run.start + run.elapsed for run in runs)
        units.setdefault(runs[0].cuid, []).append((first, last))
    times = [busy_and_idle(spans) for spans in units.values()]
    busy = sum(time[0] for time in times) // len(times)
    idle = sum(time[1] for time in times) // len(times)
    blocks = header.gridDimX * header.gridDimY * header.gridDimZ
    print(f"blocks: {blocks}, units: {len(units)}, busy: {busy} cycles, between blocks: {idle} cycles")


if __name__ == "__main__":
    main(sys.argv[1])
