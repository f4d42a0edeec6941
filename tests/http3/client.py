"""A client of HTTP/3 on aioquic, driven by a test: a command in JSON per line of the standard
input, its result per line of the standard output. Arguments: port, name of the server, file of the
authority; `bare` leaves HTTP/3 to the test, which then sends the bytes of streams itself; `from=`
is the address to send from, `max_data=` and `max_stream_data=` are windows."""

import asyncio
import base64
import json
import os
import socket
import sys

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.buffer import Buffer
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import (
    ConnectionTerminated,
    HandshakeCompleted,
    StopSendingReceived,
    StreamDataReceived,
    StreamReset,
)
import pylsqpack

# It takes the answer to a HEAD, or a 304, for a page that was cut: it does not know the method.
H3Connection._check_content_length = lambda self, stream: None

PATIENCE = float(os.environ.get("PATIENCE", "60"))


class Stream:
    def __init__(self):
        self.heads, self.body, self.trailers = [], b"", []
        self.raw, self.reset, self.stopped = b"", None, None
        self.ended = False

    def result(self):
        status = [int(dict(head)[":status"]) for head in self.heads]
        final = self.heads[-1] if self.heads else []
        return {
            "interim": status[:-1],
            "status": status[-1] if status else None,
            "fields": [pair for pair in final if pair[0] != ":status"],
            "body": base64.b64encode(self.body).decode(),
            "trailers": self.trailers,
            "reset": self.reset,
            "stopped": self.stopped,
            "ended": self.ended,
        }


class Client(QuicConnectionProtocol):
    def __init__(self, *args, bare=False, **kwargs):
        super().__init__(*args, **kwargs)
        self.bare, self.streams, self.control = bare, {}, {}
        self.h3 = None if bare else H3Connection(self._quic)
        self.closed, self.resumed, self.changed = None, False, asyncio.Event()

    def stream(self, number):
        return self.streams.setdefault(number, Stream())

    def quic_event_received(self, event):
        if isinstance(event, HandshakeCompleted):
            self.resumed = event.session_resumed
        elif isinstance(event, ConnectionTerminated):
            self.closed = {"code": event.error_code, "reason": event.reason_phrase}
        elif isinstance(event, StreamReset):
            self.stream(event.stream_id).reset = event.error_code
        elif isinstance(event, StopSendingReceived):
            self.stream(event.stream_id).stopped = event.error_code
        elif isinstance(event, StreamDataReceived):
            if event.stream_id % 4 == 3:
                self.control[event.stream_id] = self.control.get(event.stream_id, b"") + event.data
            elif self.bare:
                stream = self.stream(event.stream_id)
                stream.raw += event.data
                if event.end_stream:
                    parse(stream)
        if self.h3 is not None:
            for got in self.h3.handle_event(event):
                stream = self.stream(got.stream_id)
                if isinstance(got, HeadersReceived):
                    fields = texts(got.headers)
                    if any(name == ":status" for name, _ in fields):
                        stream.heads.append(fields)
                    else:
                        stream.trailers = fields
                elif isinstance(got, DataReceived):
                    stream.body += got.data
                stream.ended |= got.stream_ended
        self.changed.set()

    async def until(self, done):
        async def wait():
            while not done():
                self.changed.clear()
                await self.changed.wait()

        await asyncio.wait_for(wait(), PATIENCE)

    async def may_open(self, number):
        """Waits until the server lets a stream be opened. No event tells of it."""
        while self.closed is None and number // 4 >= self._quic._remote_max_streams_bidi:
            self.transmit()
            await asyncio.sleep(0.005)

    def has_sent(self):
        """Whether everything is sent that the server's windows allow."""
        quic = self._quic
        if self.closed is not None or quic._remote_max_data_used >= quic._remote_max_data:
            return True
        streams = quic._streams.values()
        return all(one.sender.buffer_is_empty or one.is_blocked for one in streams)

    def over(self, number):
        stream = self.stream(number)
        return stream.ended or stream.reset is not None or self.closed is not None


def texts(fields):
    return [[name.decode("latin1"), value.decode("latin1")] for name, value in fields]


def frames(data):
    """Type and payload of each frame."""
    buffer = Buffer(data=data)
    while not buffer.eof():
        kind, length = buffer.pull_uint_var(), buffer.pull_uint_var()
        yield kind, buffer.pull_bytes(length)


def parse(stream):
    """The answer on a stream whose bytes came raw."""
    decoder = pylsqpack.Decoder(0, 0)
    for kind, payload in frames(stream.raw):
        if kind == 1:
            _, fields = decoder.feed_header(0, payload)
            stream.heads.append(texts(fields))
        elif kind == 0:
            stream.body += payload
    stream.ended = True


def goaways(client):
    """Numbers of the GOAWAY frames of the server."""
    found = []
    for data in client.control.values():
        if data[:1] != b"\0":
            continue
        try:
            for kind, payload in frames(data[1:]):
                if kind == 7:
                    found.append(Buffer(data=payload).pull_uint_var())
        except Exception:
            pass  # The last frame is not whole.
    return found


def send(client, request):
    """Begins a request and returns its stream."""
    number = client._quic.get_next_available_stream_id()
    fields = [
        (b":method", request["method"].encode()),
        (b":scheme", b"https"),
        (b":authority", request["authority"].encode()),
        (b":path", request["path"].encode()),
    ]
    if request.get("protocol"):
        fields.insert(1, (b":protocol", request["protocol"].encode()))
    fields += [(name.encode(), value.encode()) for name, value in request["fields"]]
    body = request.get("body")
    client.h3.send_headers(number, fields, end_stream=body is None)
    if body is not None:
        client.h3.send_data(number, base64.b64decode(body), end_stream=not request.get("open"))
    return number


async def perform(client, command):
    do = command["do"]
    if do == "requests":
        numbers = [send(client, request) for request in command["requests"]]
        client.transmit()
        if command.get("begin"):
            return {"streams": numbers}
        await client.until(lambda: all(client.over(number) for number in numbers))
        answers = [client.streams[number].result() for number in numbers]
        return {"answers": answers, "closed": client.closed}
    if do == "send":
        number = command["stream"]
        client.h3.send_data(number, base64.b64decode(command["body"]), end_stream=command["end"])
        client.transmit()
        return {}
    if do == "head":
        number = command["stream"]
        await client.until(lambda: client.stream(number).heads or client.over(number))
        return client.stream(command["stream"]).result()
    if do == "bytes":
        stream, wanted = client.stream(command["stream"]), command["bytes"]
        await client.until(lambda: len(stream.body) >= wanted or client.over(command["stream"]))
        return stream.result()
    if do == "end":
        await client.until(lambda: client.over(command["stream"]))
        return client.stream(command["stream"]).result()
    if do == "cancel":
        client._quic.reset_stream(command["stream"], 0x10C)
        client._quic.stop_stream(command["stream"], 0x10C)
        client.transmit()
        return {}
    if do == "raw":
        numbers = []
        for stream in command["streams"]:
            number = stream.get("number")
            if number is None:
                number = client._quic.get_next_available_stream_id(is_unidirectional=stream["uni"])
                # A stream that may not be opened yet must not be reset either.
                if not stream["uni"]:
                    await asyncio.wait_for(client.may_open(number), PATIENCE)
            client._quic.send_stream_data(number, bytes.fromhex(stream["bytes"]), stream["end"])
            if stream.get("reset") is not None:
                client._quic.reset_stream(number, stream["reset"])
            if stream.get("stop") is not None:
                client._quic.stop_stream(number, stream["stop"])
            numbers.append(number)
        client.transmit()
        return {"streams": numbers}
    if do == "closed":
        await client.until(lambda: client.closed is not None)
        return client.closed
    if do == "goaway":
        enough = command["count"]
        await client.until(lambda: len(goaways(client)) >= enough or client.closed is not None)
        return {"goaways": goaways(client)}
    if do == "migrate":
        loop = asyncio.get_running_loop()
        family = socket.AF_INET
        before = client._transport
        local = ("127.0.0.1", 0)
        await loop.create_datagram_endpoint(lambda: client, local_addr=local, family=family)
        if command.get("ids", True):
            client._quic.change_connection_id()
        before.abort() if command.get("close") else None
        await client.ping()
        return {"port": client._transport.get_extra_info("sockname")[1]}
    if do == "stop_windows":
        if not command.get("streams"):
            client._quic._write_connection_limits = lambda *args, **kwargs: None
        client._quic._write_stream_limits = lambda *args, **kwargs: None
        return {}
    if do == "state":
        retried = client._quic._retry_source_connection_id is not None
        return {"resumed": client.resumed, "closed": client.closed, "retried": retried}
    raise ValueError(do)


async def gather(crowd, connect, command):
    """Connects so often and begins the streams. Returns how many connections are left when all of
    it is sent."""
    streams = [(bytes.fromhex(one["bytes"]), one["end"]) for one in command["streams"]]
    for _ in range(command["count"]):
        client = await connect()
        crowd.append(client)
        for data, end in streams:
            number = client._quic.get_next_available_stream_id()
            await asyncio.wait_for(client.may_open(number), PATIENCE)
            if client.closed is None:
                client._quic.send_stream_data(number, data, end)
        client.transmit()
        while not client.has_sent():
            await asyncio.sleep(0.005)
    for client in crowd:
        try:
            if client.closed is None:
                await asyncio.wait_for(client.ping(), PATIENCE)
        except ConnectionError:
            pass  # The server has closed it.
    return sum(client.closed is None for client in crowd)


async def main():
    port, name, authority = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    bare = "bare" in sys.argv[4:]
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["h3"], server_name=name)
    configuration.load_verify_locations(authority)
    for option in sys.argv[4:]:
        if option.startswith("alpn="):
            configuration.alpn_protocols = [option[5:]]
        if option.startswith("max_data="):
            configuration.max_data = int(option[9:])
            configuration.max_stream_data = int(option[9:])
        if option.startswith("max_stream_data="):
            configuration.max_stream_data = int(option[16:])
    source = [option[5:] for option in sys.argv[4:] if option.startswith("from=")]
    source = source[0] if source else "127.0.0.1"
    loop = asyncio.get_running_loop()
    tickets = []
    crowd = []

    async def connect():
        quic = QuicConnection(configuration=configuration, session_ticket_handler=tickets.append)
        _, client = await loop.create_datagram_endpoint(
            lambda: Client(quic, bare=bare), local_addr=(source, 0)
        )
        client.connect(("127.0.0.1", port))
        try:
            await client.wait_connected()
        except ConnectionError:
            pass
        return client

    client = await connect()
    print(json.dumps({"closed": client.closed}), flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command = json.loads(line)
        try:
            if command["do"] == "reconnect":
                configuration.session_ticket = tickets[-1] if tickets else None
                client.close()
                client = await connect()
                result = {"closed": client.closed, "resumed": client.resumed}
            elif command["do"] == "crowd":
                # More connections, which stay, each with the same streams.
                result = {"open": await gather(crowd, connect, command)}
            elif command["do"] == "half":
                # Handshakes that are never finished.
                for _ in range(command["count"]):
                    quic = QuicConnection(configuration=configuration)
                    quic.connect(("127.0.0.1", port), now=loop.time())
                    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                        for data, to in quic.datagrams_to_send(now=loop.time()):
                            sender.sendto(data, to)
                result = {}
            else:
                result = await perform(client, command)
        except asyncio.TimeoutError:
            result = {"timeout": True}
        print(json.dumps(result), flush=True)


asyncio.run(main())
