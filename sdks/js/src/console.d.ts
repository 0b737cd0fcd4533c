/** Its lines go to the scheduler's log, as those of `log`: `console.log` at level info. */
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
