// A source file as lines of tokens. highlight.js gives a tree of tokens, of which only names and texts
// are used: no markup is ever made from a file's text.

import hljs from 'highlight.js/lib/core';
import cpp from 'highlight.js/lib/languages/cpp';
import python from 'highlight.js/lib/languages/python';

hljs.registerLanguage('cpp', cpp);
hljs.registerLanguage('python', python);

export interface Token {
  scope: string;
  text: string;
}

interface TokenNode {
  scope?: string;
  children: (TokenNode | string)[];
}

/** Larger files are shown plain: colouring them would hold up the page. */
const LARGEST = 400_000;

export function languageOf(file: string): string {
  if (/\.(c|cc|cpp|cxx|h|hh|hpp|cu|inc)$/i.test(file)) return 'cpp';
  if (/\.pyi?$/i.test(file)) return 'python';
  return '';
}

export function tokenLines(file: string, text: string): Token[][] {
  const language = languageOf(file);
  if (!language || text.length > LARGEST) return text.split(/\r?\n/).map((line) => [{ scope: '', text: line }]);
  const result = hljs.highlight(text, { language, ignoreIllegals: true }) as unknown as {
    _emitter: { rootNode: TokenNode };
  };
  const lines: Token[][] = [[]];
  const open: { node: TokenNode | string; scope: string }[] = [{ node: result._emitter.rootNode, scope: '' }];
  while (open.length > 0) {
    const { node, scope } = open.pop() as { node: TokenNode | string; scope: string };
    if (typeof node !== 'string') {
      const inner = node.scope ? node.scope.split('.')[0] : scope;
      for (let i = node.children.length - 1; i >= 0; i--) open.push({ node: node.children[i], scope: inner });
      continue;
    }
    node.split(/\r?\n/).forEach((piece, i) => {
      if (i > 0) lines.push([]);
      if (piece) lines[lines.length - 1].push({ scope, text: piece });
    });
  }
  return lines;
}
