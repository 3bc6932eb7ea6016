// BullMQ's worker: node worker.cjs CONCURRENCY. Results and status are kept with the job, its default.
const { Worker } = require("bullmq");
const Redis = require("ioredis");

const notes = new Redis(process.env.BENCH_NOTES_URL);
const now = () => (performance.timeOrigin + performance.now()) / 1000;

const bodies = {
  noop: async (number) => number,
  mark: async (name) => notes.set(`bench:${name}`, String(now())),
  late: async (since) => notes.rpush("bench:late", String(now() - since)),
};

const worker = new Worker("bench", async (job) => bodies[job.name](job.data), {
  connection: new Redis(process.env.BENCH_REDIS_URL, { maxRetriesPerRequest: null }),
  concurrency: Number(process.argv[2]),
});
process.on("SIGTERM", () => worker.close().then(() => process.exit(0)));
