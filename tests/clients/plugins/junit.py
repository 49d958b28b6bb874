"""Results of tests in JUnit's form, for suites that do not write them themselves."""

from xml.etree import ElementTree


def write(path, results):
    """`results`: for each test its class, its name, None or what went wrong, and whether it was skipped."""
    suite = ElementTree.Element("testsuite", tests=str(len(results)))
    for group, name, wrong, skipped in results:
        case = ElementTree.SubElement(suite, "testcase", classname=group, name=name)
        if skipped:
            ElementTree.SubElement(case, "skipped")
        elif wrong is not None:
            ElementTree.SubElement(case, "failure").text = "".join(c for c in wrong if c.isprintable() or c in "\n\t")
    ElementTree.ElementTree(suite).write(path)
