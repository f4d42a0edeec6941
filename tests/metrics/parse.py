"""Reads metrics from standard input as Prometheus' own client library does, and fails on what it would not take.

Debian's python3-prometheus-client. Argument: text (format 0.0.4) or openmetrics (1.0, with the strict parser).
"""

import sys

from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics

UNITS = ("seconds", "bytes", "ratio")

strict = sys.argv[1] == "openmetrics"
read = openmetrics if strict else parser
families = list(read.text_string_to_metric_families(sys.stdin.read()))
assert len(families) > 40, len(families)
seen = set()
for family in families:
    assert family.type in ("counter", "gauge", "histogram"), family.name
    assert family.documentation.endswith("."), family.name
    assert family.samples, family.name
    if strict:
        unit = next((unit for unit in UNITS if family.name.endswith("_" + unit)), "")
        assert family.unit == unit, (family.name, family.unit)
    cumulative = {}
    for sample in family.samples:
        assert sample.value >= 0, sample
        key = (sample.name, tuple(sorted(sample.labels.items())))
        assert key not in seen, sample
        seen.add(key)
        if sample.name.endswith("_bucket"):
            series = tuple(sorted((k, v) for k, v in sample.labels.items() if k != "le"))
            assert cumulative.get(series, 0) <= sample.value, sample
            cumulative[series] = sample.value
