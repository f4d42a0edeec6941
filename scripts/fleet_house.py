"""What the scripts about the remote tier share: servers started and ended, an origin, Larders."""

import asyncio
import contextlib
import re
import signal
import socket
import subprocess
import threading
import time

HOST = "127.0.0.1"


def free_port():
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return listener.getsockname()[1]


def until(what, ready, patience=20):
    end = time.monotonic() + patience
    while not ready():
        if time.monotonic() > end:
            raise SystemExit(f"waited too long for {what}")
        time.sleep(0.02)


def listening(port):
    with contextlib.suppress(OSError):
        socket.create_connection((HOST, port), 1).close()
        return True
    return False


def ask(port, target):
    """The body of a page."""
    with socket.create_connection((HOST, port), 60) as wire:
        wire.sendall(f"GET {target} HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: wire.recv(1 << 16), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"{target}: {head[:200]!r}")
    return body


class Origin(threading.Thread):
    """Every page has the same body and takes `delay` seconds, unless it is a page to fill the fleet with."""

    def __init__(self, body, delay):
        super().__init__(daemon=True)
        self.body, self.delay, self.port = body, delay, free_port()
        self.start()
        until("the origin", lambda: listening(self.port))

    def run(self):
        asyncio.run(self.serve())

    async def serve(self):
        server = await asyncio.start_server(self.answer, HOST, self.port)
        await server.serve_forever()

    async def answer(self, reader, writer):
        fields = f"Content-Type: text/html\r\nCache-Control: max-age=86400\r\nContent-Length: {len(self.body)}\r\n\r\n"
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if not head.startswith(b"GET /fill/"):
                    await asyncio.sleep(self.delay)
                writer.write(b"HTTP/1.1 200 OK\r\n" + fields.encode() + self.body)
                await writer.drain()
        writer.close()


class House:
    """Processes with their logs in one directory, ended together."""

    def __init__(self, larder, directory):
        self.larder_binary, self.directory, self.started = larder, directory, []

    def start(self, name, command, port):
        log = open(self.directory / f"{name}.log", "w")
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.started.append(process)
        until(name, lambda: listening(port) or process.poll() is not None)
        if process.poll() is not None:
            raise SystemExit(f"{name} ended at once: {(self.directory / f'{name}.log').read_text()}")
        return process

    def end(self):
        for process in self.started:
            process.send_signal(signal.SIGTERM)
        for process in self.started:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()

    def memcached(self, number):
        port = free_port()
        self.start(f"memcached{number}", ["memcached", "-u", "root", "-l", HOST, "-p", str(port), "-m", "512"], port)
        return f"{HOST}:{port}"

    def larder(self, name, origin, remote="", rule="", memory="2GiB"):
        port = free_port()
        config = self.directory / f"{name}.toml"
        config.write_text(
            f'memory = "{memory}"\n[http]\nlisten = "{HOST}:{port}"\n{remote}\n[[site]]\norigin = "http://{HOST}:{origin.port}"\n{rule}\n'
        )
        command = [str(self.larder_binary), "serve", "--threads", "1", "--config", str(config)]
        return port, self.start(name, command, port)

    def counted(self, process, name, counter):
        """What a Larder counted: asks for its counters and reads the last printed."""
        log = self.directory / f"{name}.log"
        size = log.stat().st_size
        process.send_signal(signal.SIGUSR1)
        found = []

        def printed():
            found[:] = re.findall(rf"larder: remote\.\w+\.{counter} (\d+)", log.read_text()[size:])
            return bool(found)

        until(f"{name} to print {counter}", printed)
        return int(found[-1])
