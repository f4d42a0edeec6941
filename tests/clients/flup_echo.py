"""Echoes the body of a request behind its path, by flup: WSGI over FastCGI, on descriptor 0."""
from flup.server.fcgi import WSGIServer


def echo(environ, start_response):
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    control = "no-store" if body else "max-age=600"
    start_response("200 OK", [("Content-Type", "text/plain"), ("Cache-Control", control)])
    return [environ["REQUEST_METHOD"].encode(), b" ", environ["REQUEST_URI"].encode(), b"\n", body]


WSGIServer(echo, multithreaded=True, multiplexed=True).run()
