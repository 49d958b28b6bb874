"""Reads the findings of a checking run from its log.

The processes of a run append lines of JSON to one file. A line with ``kind`` is a finding. A line without ``kind``
states how often the finding with this ``id`` has occurred so far. Each process of pytest has a label, which its child
processes inherit, and reads only the lines with this label.
"""

import json

SEVERITIES = ("info", "warning", "error")


class Log:
    """Reads the findings with one label from the file ``path``."""

    def __init__(self, path, label):
        self.path = path
        self.label = label
        self._offset = 0
        self._rest = b""
        self._known = {}

    def new(self, least):
        """Returns the findings that have occurred since the last call, with at least the severity ``least``."""
        found = {}
        for line in self._lines():
            key = (line.get("pid"), line.get("id"))
            if "kind" in line:
                self._known[key] = line
                found[key] = dict(line)
            elif key in self._known and "count" in line:
                self._update(key, line, found)
        wanted = SEVERITIES.index(least)
        return [one for one in found.values() if SEVERITIES.index(one.get("severity", "error")) >= wanted]

    def _update(self, key, line, found):
        """Adds the new occurrences of a known finding, which ``line`` counts, to ``found``."""
        known = self._known[key]
        more = line["count"] - known.get("count", 1)
        known.update(count=line["count"], severity=line.get("severity", known.get("severity")))
        if more <= 0:
            return
        if key in found:
            found[key].update(count=found[key].get("count", 1) + more, severity=known["severity"])
        else:
            found[key] = dict(known, count=more)

    def _lines(self):
        try:
            with open(self.path, "rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            try:
                line = json.loads(line)
            except ValueError:
                continue
            if isinstance(line, dict) and line.get("label") == self.label:
                yield line
