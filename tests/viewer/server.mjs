// A server as the page expects it (docs/view-format.md), for tests of what only a server gives: live
// points, recording the next steps, the playground. It listens on 127.0.0.1 at a free port.

import { createServer } from 'node:http';
import { once } from 'node:events';
import { pageParts } from './page.mjs';

export async function startServer(built, items, answers) {
  const streams = new Set();
  const posts = [];
  const { html, policy } = pageParts(built, items, 'server', ['record']);
  const server = createServer((request, response) => {
    const data = /^\/data\/(\d+)$/.exec(request.url);
    if (request.url === '/') {
      response.writeHead(200, {
        'Content-Type': 'text/html; charset=utf-8',
        'Content-Security-Policy': `${policy}; connect-src 'self'`,
      });
      response.end(html);
    } else if (data && items[data[1]]) {
      response.writeHead(200, { 'Content-Type': 'application/octet-stream' });
      response.end(Buffer.from(items[data[1]].bytes));
    } else if (request.url.startsWith('/live/')) {
      response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      response.write(': hello\n\n');
      streams.add(response);
      request.on('close', () => streams.delete(response));
    } else if (request.method === 'POST' && answers[request.url]) {
      let body = '';
      request.on('data', (part) => (body += part));
      request.on('end', () => {
        posts.push([request.url, JSON.parse(body)]);
        const [status, answer] = answers[request.url](JSON.parse(body));
        response.writeHead(status, { 'Content-Type': 'application/json' });
        response.end(JSON.stringify(answer));
      });
    } else {
      // The browser asks for an icon by itself.
      response.writeHead(request.url === '/favicon.ico' ? 204 : 404, {
        'Content-Type': 'application/json',
      });
      response.end(request.url === '/favicon.ico' ? undefined : '{"error": "there is nothing here"}');
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${server.address().port}/`,
    posts,
    listeners: () => streams.size,
    send: (event) => streams.forEach((s) => s.write(`data: ${JSON.stringify(event)}\n\n`)),
    close: () => {
      streams.forEach((s) => s.end());
      server.closeAllConnections?.();
      return new Promise((done) => server.close(done));
    },
  };
}
