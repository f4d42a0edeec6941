"""A collector of traces: takes OTLP over HTTP, reads it by OpenTelemetry's own definitions, and appends a line of JSON per span
to the file it is given. Answers 503 while a file of that name with `.refuse` behind it exists."""
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

OUT = sys.argv[1]


def plain(value):
    return getattr(value, value.WhichOneof("value"))


class Collector(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        refuse = os.path.exists(OUT + ".refuse")
        if not refuse:
            assert self.path == "/v1/traces", self.path
            assert self.headers["Content-Type"] == "application/x-protobuf"
            self.take(ExportTraceServiceRequest.FromString(body))
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(503 if refuse else 200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def take(self, request):
        lines = []
        for resource in request.resource_spans:
            service = {a.key: plain(a.value) for a in resource.resource.attributes}["service.name"]
            for scope in resource.scope_spans:
                for span in scope.spans:
                    lines.append(json.dumps({
                        "service": service,
                        "scope": scope.scope.name,
                        "trace": span.trace_id.hex(),
                        "span": span.span_id.hex(),
                        "parent": span.parent_span_id.hex(),
                        "name": span.name,
                        "kind": span.kind,
                        "start": span.start_time_unix_nano,
                        "end": span.end_time_unix_nano,
                        "failed": span.status.code == 2,
                        "attributes": {a.key: plain(a.value) for a in span.attributes},
                    }))
        with open(OUT, "a") as out:
            out.write("".join(line + "\n" for line in lines))

    def log_message(self, *args):
        pass


server = HTTPServer(("127.0.0.1", int(sys.argv[2])), Collector)
print("collecting", flush=True)
server.serve_forever()
