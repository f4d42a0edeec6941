"""Fetches pages with httpx over HTTP/2: `httpx_all.py AUTHORITY URL...`. All at the same time on one
connection, twice; a line for each answer as in go/main.go."""

import asyncio
import ssl
import sys
import zlib

import httpx


async def fetch(client, url):
    answer = await client.get(url)
    found = "hit" if "hit" in answer.headers.get("cache-status", "") else "miss"
    body = answer.content
    sum = zlib.crc32(body)
    return f"{answer.http_version} {answer.status_code} {len(body)} {sum:08x} {found}"


async def main():
    trust = ssl.create_default_context(cafile=sys.argv[1])
    async with httpx.AsyncClient(http1=False, http2=True, verify=trust, timeout=60) as client:
        for _ in range(2):
            print("\n".join(await asyncio.gather(*(fetch(client, url) for url in sys.argv[2:]))))


asyncio.run(main())
