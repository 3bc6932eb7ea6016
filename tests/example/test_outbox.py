"""Reading the files of Django's file-based mail backend."""

from __future__ import annotations

import os

from django.core.mail import EmailMessage

from example_project.market import outbox


def write_mail(folder, name: str, subject: str, body: str = "Hello", age_s: float = 0) -> None:
    """A file as the backend writes it."""
    message = EmailMessage(subject, body, '"Émile" <e@example.test>', ['"张三" <z@example.test>'])
    path = folder / name
    with path.open("ab") as file:
        file.write(message.message().as_bytes() + b"\n" + b"-" * 79 + b"\n")
    os.utime(path, (1_800_000_000 - age_s, 1_800_000_000 - age_s))


def test_names_in_any_script_are_decoded(tmp_path):
    write_mail(tmp_path, "a.log", "Sold: 茶壶", "北野 愛 bought it.\n\nBye")

    (mail,) = outbox.newest(tmp_path, 10)

    assert mail.subject == "Sold: 茶壶"
    assert mail.recipient == "张三 <z@example.test>"
    assert mail.sender == "Émile <e@example.test>"
    assert mail.body == "北野 愛 bought it.\n\nBye"


def test_mails_are_listed_newest_first_across_pages(tmp_path):
    for number in range(5):
        write_mail(tmp_path, f"{9 - number}.log", f"No. {number}", age_s=100 - number)

    assert [mail.subject for mail in outbox.newest(tmp_path, 2)] == ["No. 4", "No. 3"]
    assert [mail.subject for mail in outbox.newest(tmp_path, 2, 2)] == ["No. 2", "No. 1"]


def test_two_mails_of_one_file_are_listed_separately(tmp_path):
    write_mail(tmp_path, "a.log", "first")
    write_mail(tmp_path, "a.log", "second")

    assert [mail.subject for mail in outbox.newest(tmp_path, 10)] == ["second", "first"]


def test_an_incomplete_mail_is_not_listed(tmp_path):
    write_mail(tmp_path, "a.log", "whole")
    with (tmp_path / "a.log").open("ab") as file:
        file.write(b"Subject: half\n\nHel")

    assert [mail.subject for mail in outbox.newest(tmp_path, 10)] == ["whole"]


def test_a_missing_folder_has_no_mails(tmp_path):
    assert outbox.newest(tmp_path / "none", 10) == []


def test_a_mail_with_an_invalid_date_is_listed(tmp_path):
    (tmp_path / "a.log").write_bytes(b"Subject: odd\nDate: yesterday\n\nHello\n" + b"-" * 79 + b"\n")

    assert outbox.newest(tmp_path, 10)[0].sent_at.year == 1970
