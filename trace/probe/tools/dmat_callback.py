# Draws which pages of global memory a launch accesses, and when: an SVG picture beside the result file. Time goes from
# left to right, and the pages that are accessed go from top to bottom. The darker a cell, the more accesses.
import sys

from read import parse

PAGE = 4096
COLUMNS = 160
ROWS = 100
CELL = 5


def accesses(records):
    """Returns the time and the page of each access. Slots end with records of zeros."""
    for cta in records["DMAT"]:
        for slot in cta:
            for record in slot:
                if record.addr != 0:
                    yield record.clock, (record.addr & 0xFFFF_FFFF_FFFF_FFFF) // PAGE


def picture(cells):
    """Returns the SVG text of a dictionary from (column, row) to the number of accesses."""
    most = max(cells.values())
    width, height = COLUMNS * CELL, ROWS * CELL
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for (column, row), count in sorted(cells.items()):
        shade = 0.15 + 0.85 * count / most
        place = f'x="{column * CELL}" y="{row * CELL}" width="{CELL}" height="{CELL}"'
        lines.append(f'<rect {place} fill="navy" fill-opacity="{shade:.3f}"/>')
    lines.append("</svg>")
    return "\n".join(lines)


def main(path):
    _, _, records = parse(path)
    found = list(accesses(records))
    if not found:
        print("accesses: 0")
        return
    pages = {page: index for index, page in enumerate(sorted({page for _, page in found}))}
    end = max(clock for clock, _ in found) + 1
    cells = {}
    for clock, page in found:
        cell = (clock * COLUMNS // end, pages[page] * ROWS // len(pages))
        cells[cell] = cells.get(cell, 0) + 1
    out = path.removesuffix(".bin") + ".svg"
    with open(out, "w") as file:
        file.write(picture(cells))
    print(f"accesses: {len(found)}, pages: {len(pages)}, cycles: {end}, picture: {out}")


if __name__ == "__main__":
    main(sys.argv[1])
