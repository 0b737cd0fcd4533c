// Replaces the scheduler's functions while the build loads the plugin in Node.js.

const absent = () => {
  throw new Error("the scheduler is not there while the plugin is built");
};

export { absent as askExtenders, absent as count, absent as dryRun, absent as log, absent as now };
