// The list of views: one line each. `has` says whether the open file holds what the view shows.

import type { ComponentType } from 'preact';
import type { Profile } from '../model/profile';
import { Calls } from './calls';
import { Flame } from './flame';
import { Graph } from './graph';
import { Layers } from './layers';
import { Memory } from './memory';
import { Overview } from './overview';
import { Roofline } from './roofline';
import { Source } from './source';
import { Timeline } from './timeline';
import { Training } from './training';

export interface View {
  id: string;
  title: string;
  view: ComponentType<{ p: Profile }>;
  has?: (p: Profile) => boolean;
}

const events = (p: Profile): boolean => p.n > 0;

export const VIEWS: View[] = [
  { id: 'overview', title: 'Overview', view: Overview },
  { id: 'flame', title: 'Flame', view: Flame, has: (p) => p.n > 0 || p.rowsOf('sample') > 0 },
  { id: 'timeline', title: 'Timeline', view: Timeline, has: events },
  { id: 'calls', title: 'Calls', view: Calls, has: events },
  { id: 'layers', title: 'Layers', view: Layers, has: (p) => p.header.modules.length > 0 },
  { id: 'roofline', title: 'Roofline', view: Roofline, has: events },
  { id: 'memory', title: 'Memory', view: Memory, has: (p) => p.blocks > 0 },
  { id: 'source', title: 'Source', view: Source, has: (p) => p.lines.length > 0 },
  { id: 'graph', title: 'Graph', view: Graph, has: (p) => p.header.graphs.length > 0 },
  { id: 'training', title: 'Training', view: Training, has: (p) => p.header.series.length > 0 },
];
