"""Frames of the site's code below a run, read while it runs in another thread or waits in the event loop."""

from __future__ import annotations

from types import CodeType, CoroutineType, FrameType, GeneratorType
from typing import Any


def frames_until(frame: FrameType | None, code: CodeType) -> list[FrameType]:
    """Return the frames that this code has called, the innermost last; none if it has called none of them."""
    frames: list[FrameType] = []
    while frame is not None and frame.f_code is not code:
        frames.append(frame)
        frame = frame.f_back
    return frames[::-1] if frame is not None else []


def frames_awaited(awaited: Any) -> list[FrameType]:
    """Return the frames of a coroutine and of what it awaits, up to what is no coroutine, such as a future.

    Types are compared, as the attributes of other awaitables are the site's code.
    """
    frames: list[FrameType] = []
    while (kind := type(awaited)) in (CoroutineType, GeneratorType):
        is_coroutine = kind is CoroutineType
        frame = awaited.cr_frame if is_coroutine else awaited.gi_frame
        if frame is None:
            break
        frames.append(frame)
        awaited = awaited.cr_await if is_coroutine else awaited.gi_yieldfrom
    return frames


def is_below(frames: list[FrameType], outer: FrameType) -> bool:
    """Return whether a frame has called the first of these, directly or not."""
    frame = frames[0].f_back if frames else None
    while frame is not None and frame is not outer:
        frame = frame.f_back
    return frame is outer
