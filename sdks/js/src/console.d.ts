/** Writes lines to the scheduler's log, as `log` does. `console.log` writes at level info. */
interface Console {
  debug(...data: any[]): void;
  trace(...data: any[]): void;
  log(...data: any[]): void;
  info(...data: any[]): void;
  dir(...data: any[]): void;
  warn(...data: any[]): void;
  error(...data: any[]): void;
  assert(condition?: boolean, ...data: any[]): void;
}

declare var console: Console;
