"""Made-up members. Twelve have names of their own; the others are put together from lists, always the same way."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Iterator

#: User name and name of the first members; the demo and its tests call them by these.
KNOWN = [
    ("zhangsan", "张三"),
    ("kitano", "北野 愛"),
    ("zola", "Émile Zola"),
    ("lukasz", "Łukasz Wiśniewski"),
    ("orsted", "Hans Ørsted"),
    ("ismail", "İsmail Şahin"),
    ("lisi", "李四"),
    ("garcia", "María García Núñez"),
    ("petrova", "Анна Петрова"),
    ("oconnor", "Siobhán O'Connor"),
    ("weiss", "Jürgen Weiß"),
    ("papadaki", "Ελένη Παπαδάκη"),
]

#: Given names and family names that go together, and how they are joined. ``王:wang`` gives the Latin letters.
TONGUES: list[tuple[str, str, str]] = [
    (
        "Ada Alan Barbara Claude Dorothy Edsger Frances Grace",
        "Adams Baker Cooper Dawson Ellis Fisher Turner",
        "{0} {1}",
    ),
    ("Aurélie Benoît Chloé François Geneviève Hélène Noël", "Bélanger Côté Lefèvre Moreau Près Rivière", "{0} {1}"),
    ("Björn Åsa Søren Þóra Mårten Jørgen Liv", "Ångström Ødegård Lindqvist Sørensen Nyström", "{0} {1}"),
    ("Agnieszka Łucja Paweł Stanisław Żaneta Michał", "Kowalczyk Łuczak Wójcik Wróbel Zając", "{0} {1}"),
    ("Ayşe Çağla Emre Gökçe İpek Ümit", "Çelik Öztürk Şimşek Yıldız Güneş", "{0} {1}"),
    ("Agustín Begoña Íñigo Lucía Ramón Sofía", "Fernández Ibáñez Muñoz Peña Yáñez", "{0} {1}"),
    (
        "伟:wei 芳:fang 娜:na 敏:min 静:jing 丽:li 强:qiang 磊:lei 军:jun 洋:yang",
        "王:wang 李:li 张:zhang 刘:liu 陈:chen 杨:yang 赵:zhao 黄:huang 周:zhou 吴:wu",
        "{1}{0}",
    ),
    (
        "健太:kenta さくら:sakura 美咲:misaki 大輔:daisuke 陽子:yoko 翔:sho",
        "佐藤:sato 鈴木:suzuki 高橋:takahashi 田中:tanaka 渡辺:watanabe 山本:yamamoto",
        "{1} {0}",
    ),
    (
        "민준:minjun 서연:seoyeon 지훈:jihun 하은:haeun 도윤:doyun",
        "김:kim 이:lee 박:park 최:choi 정:jung",
        "{1}{0}",
    ),
    (
        "Олег:oleg Ирина:irina Фёдор:fyodor Софья:sofya Юрий:yuri",
        "Коваленко:kovalenko Черных:chernykh Шевчук:shevchuk Седых:sedykh",
        "{0} {1}",
    ),
]

#: Letters that do not come apart into a plain one and a mark.
PLAIN = str.maketrans({"Ł": "L", "ł": "l", "Ø": "O", "ø": "o", "Þ": "Th", "þ": "th", "ı": "i"})

#: Names; one that is taken is drawn again. With many members they repeat.
REDRAWS = 20


def members(count: int) -> Iterator[tuple[str, str]]:
    """``count`` pairs of user name and name, the same for each call; user names do not repeat."""
    yield from KNOWN[:count]
    rng = random.Random(6)
    taken = {name for _, name in KNOWN}
    for number in range(len(KNOWN) + 1, count + 1):
        for _ in range(REDRAWS):
            username, name = _drawn(rng)
            if name not in taken:
                break
        taken.add(name)
        yield f"{username}{number}", name


def _drawn(rng: random.Random) -> tuple[str, str]:
    given, family, pattern = rng.choice(TONGUES)
    parts = [rng.choice(names.split()).partition(":") for names in (given, family)]
    username = "".join(_plain(latin or written) for written, _, latin in parts)
    return username, pattern.format(*(written for written, _, _ in parts))


def _plain(name: str) -> str:
    """A name in the letters of a user name."""
    letters = unicodedata.normalize("NFKD", name.translate(PLAIN)).encode("ascii", "ignore").decode().lower()
    return "".join(letter for letter in letters if letter.isalpha())
