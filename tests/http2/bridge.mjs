// Takes requests of HTTP/1 and sends them on as HTTP/2: `node bridge.mjs http://HOST:PORT PORT`.
// All requests go over one connection.
import http from 'node:http';
import http2 from 'node:http2';

const OF_THE_CONNECTION = new Set(['connection', 'host', 'keep-alive', 'proxy-connection', 'te', 'transfer-encoding', 'upgrade']);
const session = http2.connect(process.argv[2]);
session.on('error', (error) => { console.error(error); process.exit(1); });

const pairs = (raw) => raw.flatMap((name, at) => (at % 2 === 0 ? [[name, raw[at + 1]]] : []));

const server = http.createServer((request, response) => {
  const head = { ':method': request.method, ':scheme': 'http', ':authority': request.headers.host, ':path': request.url };
  for (const [name, value] of pairs(request.rawHeaders)) {
    const lower = name.toLowerCase();
    if (OF_THE_CONNECTION.has(lower)) continue;
    head[lower] = lower in head ? [head[lower], value].flat() : value;
  }
  const bodied = 'content-length' in request.headers || 'transfer-encoding' in request.headers;
  const stream = session.request(head, { endStream: !bodied });
  if (bodied) request.pipe(stream);
  stream.on('response', (_head, _flags, raw) => {
    const lines = pairs(raw).filter(([name]) => !name.startsWith(':'));
    const status = Number(pairs(raw).find(([name]) => name === ':status')[1]);
    response.writeHead(status, lines.flat());
    stream.pipe(response);
  });
  stream.on('error', () => response.destroy());
  response.on('close', () => stream.close());
});
server.keepAliveTimeout = 0;
server.listen(Number(process.argv[3]), '127.0.0.1', () => console.log('Listening'));
