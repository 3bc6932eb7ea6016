"""The outbox: tasks enqueued on commit are stored in the site's database with the transaction, until they are sent.

    INSTALLED_APPS = [..., "django_redis_components", "django_redis_components.contrib.outbox"]
    REDIS_COMPONENTS = {"TASKQUEUE": {"OUTBOX": True}}        # or for a task: @task(outbox=True)

Then run ``manage.py migrate``.

What the database has committed is sent: `enqueue_on_commit` writes a row in the site's transaction and sends the task
after the commit. If Redis is away then, or the process dies, the relay sends it. A thread of each worker process and
poller can be the relay; the one that has a lease is active. It also deletes the rows, many at a time.

- Under crash: a row is deleted only after Redis has accepted its task. The scripts accept each row once, from any
  sender and however often, also when the record of the task has expired meanwhile.
- Under race: tasks of a transaction are accepted in the order of the calls, by either sender.
- Redis away: the commit succeeds, `enqueue_on_commit` raises nothing, and the first commit waits for ``PAGE_TIMEOUT``.

Keys: ``{default}:outbox`` of `taskqueue`, a zset with the tokens of the rows that were sent; the lock
``outbox:<connection>``.

==============  ==================================================================
models          the table
storage         writes rows, and finds the databases that may have some
relay           sends what was not sent, deletes rows, removes tokens
accepted_tasks  the tasks that a relay has sent, until their signals are sent
problems        the check of the overview and of `doctor`
panels          the panel of the overview
==============  ==================================================================

See also: ``docs/components/outbox.md``; `taskqueue.outbox` for what a row has.
"""
