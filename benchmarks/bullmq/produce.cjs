// BullMQ's sending side: node produce.cjs ACTION [ARGUMENTS], as benchmarks/produce.py; prints one line of JSON.
const { Queue } = require("bullmq");
const Redis = require("ioredis");

const url = process.env.BENCH_REDIS_URL;
const now = () => performance.timeOrigin + performance.now();

async function rated(count, act) {
  const began = performance.now();
  await act();
  return count / ((performance.now() - began) / 1000);
}

async function inBulk(queue, count, argument) {
  for (let start = 0; start < count; start += 500) {
    const size = Math.min(500, count - start);
    await queue.addBulk(Array.from({ length: size }, (_, at) => ({ name: "noop", data: argument ?? start + at })));
  }
}

const actions = {
  async fill(queue, count) {
    await queue.add("mark", "begin");
    const single = await rated(count, async () => {
      for (let number = 0; number < count; number++) await queue.add("noop", number);
    });
    await queue.add("mark", "end");
    return { single };
  },
  async fill_in_bulk(queue, count) {
    await queue.add("mark", "begin");
    const bulk = await rated(count, () => inBulk(queue, count));
    await queue.add("mark", "end");
    return { bulk };
  },
  async ones(queue, count) {
    await inBulk(queue, count, 1);
    return {};
  },
  async pick_up(queue, count, pauseSeconds) {
    for (let number = 0; number < count; number++) {
      await new Promise((resolve) => setTimeout(resolve, pauseSeconds * 1000));
      await queue.add("late", now() / 1000);
    }
    return {};
  },
  async delay(queue, count, overSeconds) {
    const first = now() / 1000 + 2 + count / 500;
    for (let number = 0; number < count; number++) {
      const due = Math.round((first + (number * overSeconds) / count) * 1000) / 1000;
      await queue.add("late", due, { delay: Math.round(due * 1000 - now()) });
    }
    return { ends_in_s: first + overSeconds - now() / 1000 };
  },
};

(async () => {
  const [action, ...numbers] = process.argv.slice(2);
  const connection = new Redis(url, { maxRetriesPerRequest: null });
  const queue = new Queue("bench", { connection });
  console.log(JSON.stringify(await actions[action](queue, ...numbers.map(Number))));
  await queue.close();
  connection.disconnect();
})();
