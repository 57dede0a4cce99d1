// A part of the run. An event belongs to the range that it begins in, so the sums of ranges that
// follow one another are those of the whole.

export interface Range {
  from: number;
  to: number;
}

export function contains(range: Range | null, time: number): boolean {
  return range === null || (time >= range.from && time < range.to);
}

export function length(range: Range | null, duration: number): number {
  return range === null ? duration : range.to - range.from;
}
