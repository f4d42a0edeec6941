"""Says where pymemcache's HashClient places keys.

Standard input: a line "HOST PORT WEIGHT" for each server (port 0: a unix socket), an empty line, a key a line. Standard
output: for each key a line with the index of its server.
"""

import sys

from pymemcache.client.hash import HashClient

servers = []
for line in iter(sys.stdin.readline, "\n"):
    host, port, _weight = line.split()
    servers.append((host, int(port)) if int(port) else host)

client = HashClient(servers)
indices = {client._make_client_key(server): index for index, server in enumerate(servers)}
for line in sys.stdin:
    print(indices[client.hasher.get_node(line.rstrip("\n"))])
