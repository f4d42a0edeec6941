"""Takes requests of HTTP/1 and sends them on as HTTP/3: `bridge.py PORT AUTHORITY BRIDGE_PORT`. All
requests go over one connection. The other side of it is that of tests/http2/bridge.mjs."""

import asyncio
import sys

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3 import connection as h3
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, StreamReset

# aioquic does not know the method: a HEAD or a 304 has a length without content.
h3.H3Connection._check_content_length = lambda self, stream: None

OF_THE_CONNECTION = {
    b"connection",
    b"host",
    b"keep-alive",
    b"proxy-connection",
    b"te",
    b"transfer-encoding",
    b"upgrade",
}


def is_interim(fields):
    return dict(fields)[b":status"].startswith(b"1")


class H3(h3.H3Connection):
    """Knows interim responses: behind one, aioquic takes the final head for trailers."""

    def _handle_request_or_push_frame(self, frame_type, frame_data, stream, stream_ended):
        events = super()._handle_request_or_push_frame(
            frame_type, frame_data, stream, stream_ended
        )
        for event in events:
            if isinstance(event, HeadersReceived) and is_interim(event.headers):
                stream.headers_recv_state = h3.HeadersState.INITIAL
                stream.expected_content_length = None
        return events


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.h3, self.streams = H3(self._quic), {}

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            sys.exit(f"the connection ended: {event.error_code} {event.reason_phrase}")
        if isinstance(event, StreamReset) and event.stream_id in self.streams:
            self.streams[event.stream_id].put_nowait(None)
        for got in self.h3.handle_event(event):
            if got.stream_id in self.streams:
                self.streams[got.stream_id].put_nowait(got)

    def ask(self, fields, body):
        """Sends a request. Its stream, and a queue of what comes on it."""
        number = self._quic.get_next_available_stream_id()
        self.streams[number] = asyncio.Queue()
        self.h3.send_headers(number, fields, end_stream=body is None)
        if body is not None:
            self.h3.send_data(number, body, end_stream=True)
        self.transmit()
        return number, self.streams[number]


async def request(reader):
    """The pseudo fields and fields of a request, and its body where it has one."""
    lines = (await reader.readuntil(b"\r\n\r\n")).rstrip(b"\r\n").split(b"\r\n")
    method, target, _ = lines[0].split(b" ")
    pairs = [line.split(b":", 1) for line in lines[1:]]
    pairs = [(name.lower(), value.strip(b" \t")) for name, value in pairs]
    known = dict(pairs)
    assert b"transfer-encoding" not in known, "the suite sends bodies with a length"
    body = None
    if b"content-length" in known:
        body = await reader.readexactly(int(known[b"content-length"]))
    pseudo = [
        (b":method", method),
        (b":scheme", b"https"),
        (b":authority", known[b"host"]),
        (b":path", target),
    ]
    return pseudo + [pair for pair in pairs if pair[0] not in OF_THE_CONNECTION], body


async def answer(method, queue, writer):
    """Sends the answer on. False: it was cut."""
    chunked, headed = False, False
    while True:
        event = await queue.get()
        if event is None:
            return False
        if isinstance(event, HeadersReceived) and not headed:
            if is_interim(event.headers):
                continue
            headed = True
            fields = [pair for pair in event.headers if not pair[0].startswith(b":")]
            status = dict(event.headers)[b":status"]
            bodiless = method == b"HEAD" or status in (b"204", b"304")
            chunked = not bodiless and all(name != b"content-length" for name, _ in fields)
            fields += [(b"connection", b"close")]
            fields += [(b"transfer-encoding", b"chunked")] if chunked else []
            lines = b"".join(name + b": " + value + b"\r\n" for name, value in fields)
            writer.write(b"HTTP/1.1 " + status + b" \r\n" + lines + b"\r\n")
        elif isinstance(event, DataReceived) and event.data:
            data = event.data
            writer.write(b"%x\r\n%s\r\n" % (len(data), data) if chunked else data)
        if event.stream_ended:
            writer.write(b"0\r\n\r\n" if chunked else b"")
            return True


async def main():
    port, authority, at = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    configuration = QuicConfiguration(
        is_client=True, alpn_protocols=["h3"], server_name="127.0.0.1", idle_timeout=600
    )
    configuration.load_verify_locations(authority)
    loop = asyncio.get_running_loop()
    quic = QuicConnection(configuration=configuration)
    _, client = await loop.create_datagram_endpoint(
        lambda: Client(quic), local_addr=("127.0.0.1", 0)
    )
    client.connect(("127.0.0.1", port))
    await client.wait_connected()

    async def serve(reader, writer):
        try:
            fields, body = await request(reader)
            number, queue = client.ask(fields, body)
            whole = await answer(fields[0][1], queue, writer)
            del client.streams[number]
            if whole:
                await writer.drain()
                writer.close()
            else:
                writer.transport.abort()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", at)
    print("Listening", flush=True)
    async with server:
        await server.serve_forever()


asyncio.run(main())
