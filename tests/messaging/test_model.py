"""Chats behave like a model in plain Python, whatever the order of the operations."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from django_redis_components.messaging import (
    Chat,
    ChatDoesNotExist,
    MessageDoesNotExist,
    MessagingError,
    NotMember,
    NotSender,
    Retention,
)
from tests.support import Store

KEEP_LAST, MAX_MESSAGES = 2, 6
USERS = st.sampled_from("abc")
IDS = st.integers(0, 12)


class ChatMachine(RuleBasedStateMachine):
    """A chat beside a dict of messages and a dict of last seen ids."""

    count = 0

    def __init__(self) -> None:
        super().__init__()
        ChatMachine.count += 1
        kept = Retention(keep_last=KEEP_LAST, keep_for=0, max_messages=MAX_MESSAGES)
        self.chat = Chat.create("a", ["b"], 0, chat_id=f"model {ChatMachine.count}", retention=kept)
        self.seen = {"a": 0, "b": 0}
        self.hidden = {"a": 0, "b": 0}
        self.log: dict[int, tuple[str, Any]] = {1: ("a", 0)}
        self.seq, self.trimmed, self.keys = 1, 0, {}  # type: ignore[var-annotated]

    def outcome(self, call: Any) -> Any:
        try:
            return call()
        except MessagingError as exc:
            return type(exc)

    def refusal(self, user: str) -> Any:
        if not self.seen:
            return ChatDoesNotExist
        return None if user in self.seen else NotMember

    def trim(self) -> None:
        last = max(self.trimmed, min(min(self.seen.values()), self.seq - KEEP_LAST), self.seq - MAX_MESSAGES)
        self.trimmed = last
        self.log = {id_: one for id_, one in self.log.items() if id_ > last}

    @rule(user=USERS, body=st.integers(0, 9), key=st.sampled_from([None, "x", "y"]))
    def send(self, user: str, body: int, key: str | None) -> None:
        if (user, key) in self.keys and self.seen:
            expected: Any = self.keys[user, key]
        elif not (expected := self.refusal(user)):
            expected = self.seq = self.seq + 1
            self.log[self.seq] = (user, body)
            if key:
                self.keys[user, key] = self.seq
            self.trim()
        assert self.outcome(lambda: self.chat.send(user, body, key=key)) == expected

    @rule(user=USERS, id_=IDS)
    def ack(self, user: str, id_: int) -> None:
        expected = self.refusal(user)
        if not expected:
            before, self.seen[user] = self.seen[user], max(self.seen[user], min(id_, self.seq))
            expected = sum(before < number <= self.seen[user] for number in self.log)
            self.trim()
        assert self.outcome(lambda: self.chat.ack(user, id_)) == expected

    @rule(user=USERS, history=st.integers(0, 4))
    def join(self, user: str, history: int) -> None:
        expected = None if self.seen else ChatDoesNotExist
        if not expected and user not in self.seen:
            self.seen[user] = self.hidden[user] = max(self.seq - history, self.trimmed)
        assert self.outcome(lambda: self.chat.join(user, history=history)) == expected

    @rule(user=USERS)
    def leave(self, user: str) -> None:
        if self.seen.pop(user, None) is not None and self.seen:
            self.trim()
        self.chat.leave(user)

    @precondition(lambda self: self.seen)
    @rule(user=USERS, id_=IDS.filter(bool), body=st.integers(10, 19))
    def edit(self, user: str, id_: int, body: int) -> None:
        expected = self.refusal(user) or self.change_refusal(user, id_)
        if not expected:
            self.log[id_] = (user, body)
        assert self.outcome(lambda: self.chat.edit_message(user, id_, body)) == expected

    @precondition(lambda self: self.seen)
    @rule(user=USERS, id_=IDS.filter(bool))
    def delete(self, user: str, id_: int) -> None:
        expected = self.refusal(user) or self.change_refusal(user, id_)
        if expected is MessageDoesNotExist and self.trimmed < id_ <= self.seq:
            expected = None  # deleted before
        if not expected:
            self.log.pop(id_, None)
        assert self.outcome(lambda: self.chat.delete_message(user, id_)) == expected

    def change_refusal(self, user: str, id_: int) -> Any:
        if id_ not in self.log:
            return MessageDoesNotExist
        return None if self.log[id_][0] == user else NotSender

    @rule(user=USERS, after=st.none() | IDS, limit=st.integers(1, 9))
    def fetch(self, user: str, after: int | None, limit: int) -> None:
        found = self.outcome(lambda: self.chat.fetch(user, after=after, limit=limit))
        if expected := self.refusal(user):
            assert found == expected
            return
        cursor = self.seen[user] if after is None else after
        start = max(0 if cursor > self.seq else cursor, self.hidden[user])
        messages = [(id_, *one) for id_, one in sorted(self.log.items()) if id_ > start][:limit]
        assert [(one.id, one.sender, one.body) for one in found] == messages
        assert found.is_truncated == (start < self.trimmed or cursor > self.seq)
        assert (found.last_id, found.last_seen) == (self.seq, self.seen[user])

    @rule(user=USERS)
    def unread(self, user: str) -> None:
        expected = self.refusal(user) or len([id_ for id_ in self.log if id_ > self.seen[user]])
        assert self.outcome(lambda: self.chat.unread(user)) == expected

    @rule()
    def members(self) -> None:
        assert self.chat.members() == self.seen


@pytest.mark.contract
def test_a_chat_behaves_like_its_model(store: Store) -> None:
    options = settings(
        max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    run_state_machine_as_test(ChatMachine, settings=options)
