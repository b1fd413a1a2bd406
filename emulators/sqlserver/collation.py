"""SQL Server's collations as values: what a name says about comparison, code page and the five bytes on the wire.

Known are the Windows collations whose varchar has a code page, in versions 80, 90, 100 and 140, and the SQL collations of the code
pages 437, 850 and 1250 to 1257. A name of any other is invalid here (error 448), which is stricter than the real server.

Sources: https://learn.microsoft.com/sql/t-sql/statements/windows-collation-name-transact-sql and
.../sql-server-collation-name-transact-sql; [MS-TDS] 2.2.5.1.2 for the bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from emulators.sqlserver.codepages import LATIN1, UTF8

SERVER_DEFAULT = "SQL_Latin1_General_CP1_CI_AS"
WIRE_SIZE = 5
IGNORE_CASE, IGNORE_ACCENT, IGNORE_KANA, IGNORE_WIDTH = 1, 2, 65536, 131072
"""Bits of ComparisonStyle, which are Windows' NORM_ flags."""

_FAMILIES_80 = """
Albanian 0x041C 1250|Arabic 0x0401 1256|Chinese_PRC 0x0804 936|Chinese_PRC_Stroke 0x20804 936|Chinese_Taiwan_Bopomofo 0x30404 950
Chinese_Taiwan_Stroke 0x0404 950|Croatian 0x041A 1250|Cyrillic_General 0x0419 1251|Czech 0x0405 1250|Danish_Norwegian 0x0406 1252
Estonian 0x0425 1257|Finnish_Swedish 0x040B 1252|French 0x040C 1252|Georgian_Modern_Sort 0x10437 1252
German_PhoneBook 0x10407 1252|Greek 0x0408 1253|Hebrew 0x040D 1255|Hungarian 0x040E 1250|Hungarian_Technical 0x1040E 1250
Icelandic 0x040F 1252|Japanese 0x0411 932|Japanese_Unicode 0x10411 932|Korean_Wansung 0x0412 949|Latin1_General 0x0409 1252
Latvian 0x0426 1257|Lithuanian 0x0427 1257|Modern_Spanish 0x0C0A 1252|Polish 0x0415 1250|Romanian 0x0418 1250|Slovak 0x041B 1250
Slovenian 0x0424 1250|Thai 0x041E 874|Traditional_Spanish 0x040A 1252|Turkish 0x041F 1254|Ukrainian 0x0422 1251
Vietnamese 0x042A 1258
"""
_FAMILIES_90 = """
Azeri_Cyrillic_90 0x082C 1251|Azeri_Latin_90 0x042C 1254|Chinese_Hong_Kong_Stroke_90 0x0C04 950|Chinese_PRC_90 0x0804 936
Chinese_PRC_Stroke_90 0x20804 936|Chinese_Taiwan_Bopomofo_90 0x30404 950|Chinese_Taiwan_Stroke_90 0x0404 950
Japanese_90 0x0411 932|Kazakh_90 0x043F 1251|Korean_90 0x0412 949|Macedonian_FYROM_90 0x042F 1251|Tatar_90 0x0444 1251
Uzbek_Latin_90 0x0443 1254
"""
_FAMILIES_100 = """
Albanian_100 0x041C 1250|Arabic_100 0x0401 1256|Azeri_Cyrillic_100 0x082C 1251|Azeri_Latin_100 0x042C 1254
Bosnian_Cyrillic_100 0x201A 1251|Bosnian_Latin_100 0x141A 1250|Breton_100 0x047E 1252|Chinese_Hong_Kong_Stroke_100 0x0C04 950
Chinese_Simplified_Pinyin_100 0x0804 936|Chinese_Simplified_Stroke_Order_100 0x20804 936
Chinese_Traditional_Bopomofo_100 0x30404 950|Chinese_Traditional_Pinyin_100 0x1404 950
Chinese_Traditional_Stroke_Count_100 0x0404 950|Chinese_Traditional_Stroke_Order_100 0x21404 950|Corsican_100 0x0483 1252
Croatian_100 0x041A 1250|Cyrillic_General_100 0x0419 1251|Czech_100 0x0405 1250|Danish_Greenlandic_100 0x0406 1252
Dari_100 0x048C 1256|Estonian_100 0x0425 1257|Finnish_Swedish_100 0x040B 1252|French_100 0x040C 1252|Frisian_100 0x0462 1252
Georgian_Modern_Sort_100 0x10437 1252|German_PhoneBook_100 0x10407 1252|Greek_100 0x0408 1253|Hebrew_100 0x040D 1255
Hungarian_100 0x040E 1250|Hungarian_Technical_100 0x1040E 1250|Icelandic_100 0x040F 1252|Japanese_Bushu_Kakusu_100 0x40411 932
Japanese_XJIS_100 0x0411 932|Kazakh_100 0x043F 1251|Korean_100 0x0412 949|Latin1_General_100 0x0409 1252|Latvian_100 0x0426 1257
Lithuanian_100 0x0427 1257|Macedonian_FYROM_100 0x042F 1251|Mapudungan_100 0x047A 1252|Modern_Spanish_100 0x0C0A 1252
Mohawk_100 0x047C 1252|Norwegian_100 0x0414 1252|Persian_100 0x0429 1256|Polish_100 0x0415 1250|Romanian_100 0x0418 1250
Romansh_100 0x0417 1252|Sami_Norway_100 0x043B 1252|Sami_Sweden_Finland_100 0x083B 1252|Serbian_Cyrillic_100 0x0C1A 1251
Serbian_Latin_100 0x081A 1250|Slovak_100 0x041B 1250|Slovenian_100 0x0424 1250|Tatar_100 0x0444 1251|Thai_100 0x041E 874
Traditional_Spanish_100 0x040A 1252|Turkish_100 0x041F 1254|Turkmen_100 0x0442 1250|Uighur_100 0x0480 1256|Ukrainian_100 0x0422 1251
Upper_Sorbian_100 0x042E 1252|Urdu_100 0x0420 1256|Uzbek_Latin_100 0x0443 1254|Vietnamese_100 0x042A 1258|Welsh_100 0x0452 1252
Yakut_100 0x0485 1251
"""
_FAMILIES_140 = "Japanese_Bushu_Kakusu_140 0x40411 932|Japanese_XJIS_140 0x0411 932"
_SQL = """
SQL_Latin1_General_CP1_CI_AS 52 0x0409 1252|SQL_Latin1_General_CP1_CS_AS 51 0x0409 1252|SQL_Latin1_General_CP1_CI_AI 54 0x0409 1252
SQL_Latin1_General_Pref_CP1_CI_AS 53 0x0409 1252|SQL_Latin1_General_CP437_BIN 30 0x0409 437
SQL_Latin1_General_CP437_CI_AS 32 0x0409 437|SQL_Latin1_General_CP437_CS_AS 31 0x0409 437
SQL_Latin1_General_CP437_CI_AI 34 0x0409 437|SQL_Latin1_General_CP850_BIN 40 0x0409 850
SQL_Latin1_General_CP850_CI_AS 42 0x0409 850|SQL_Latin1_General_CP850_CS_AS 41 0x0409 850
SQL_Latin1_General_CP850_CI_AI 44 0x0409 850|SQL_Latin1_General_CP1250_CI_AS 82 0x0409 1250
SQL_Latin1_General_CP1250_CS_AS 81 0x0409 1250|SQL_Latin1_General_CP1251_CI_AS 106 0x0419 1251
SQL_Latin1_General_CP1251_CS_AS 105 0x0419 1251|SQL_Latin1_General_CP1253_CI_AS 114 0x0408 1253
SQL_Latin1_General_CP1253_CS_AS 113 0x0408 1253|SQL_Latin1_General_CP1253_CI_AI 124 0x0408 1253
SQL_Latin1_General_CP1254_CI_AS 130 0x041F 1254|SQL_Latin1_General_CP1254_CS_AS 129 0x041F 1254
SQL_Latin1_General_CP1255_CI_AS 138 0x040D 1255|SQL_Latin1_General_CP1255_CS_AS 137 0x040D 1255
SQL_Latin1_General_CP1256_CI_AS 146 0x0401 1256|SQL_Latin1_General_CP1256_CS_AS 145 0x0401 1256
SQL_Latin1_General_CP1257_CI_AS 154 0x0425 1257|SQL_Latin1_General_CP1257_CS_AS 153 0x0425 1257
"""
_STYLE = re.compile(
    r"_(?:(?P<binary>BIN2?)|(?P<case>C[IS])_(?P<accent>A[IS])(?P<kana>_KS)?(?P<width>_WS)?(?P<selectors>_VSS)?)"
    r"(?P<supplementary>_SC)?(?P<utf8>_UTF8)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Collation:
    """`name` as Microsoft writes it. `binary`: "BIN", "BIN2" or "". `version`: 0, 1, 2 or 3 for 80, 90, 100 and 140.

    `supplementary`: a character outside the BMP counts as one (_SC, and all of version 140).
    """

    name: str
    lcid: int
    code_page: int
    version: int = 0
    sort_id: int = 0
    binary: str = ""
    case: bool = False
    accent: bool = True
    kana: bool = False
    width: bool = False
    supplementary: bool = False

    @property
    def utf8(self) -> bool:
        return self.code_page == UTF8

    @property
    def turkish(self) -> bool:
        """Whether the dotted and the dotless i are letters of their own, each with its capital."""
        return self.lcid & 0xFFFF in (0x041F, 0x042C)

    @property
    def style(self) -> int:
        """ComparisonStyle of COLLATIONPROPERTY."""
        if self.binary:
            return 0
        ignored = ((self.case, IGNORE_CASE), (self.accent, IGNORE_ACCENT), (self.kana, IGNORE_KANA))
        return sum(bit for heeded, bit in (*ignored, (self.width, IGNORE_WIDTH)) if not heeded)

    @property
    def wire(self) -> bytes:
        """LCID (20 bits), comparison flags (8), version (4), sort id (8)."""
        heeded = (self.case, self.accent, self.kana, self.width)
        flags = 0 if self.binary else sum(1 << n for n, one in enumerate(heeded) if not one)
        flags |= {"BIN": 0x10, "BIN2": 0x20}.get(self.binary, 0) | (0x40 if self.utf8 else 0)
        return (self.lcid & 0xFFFFF | flags << 20 | self.version << 28).to_bytes(4, "little") + bytes([self.sort_id])

    @property
    def description(self) -> str:
        """As sys.fn_helpcollations has it."""
        family = self.name.removeprefix("SQL_").split("_C" if not self.binary else "_BIN")[0].replace("_", "-")
        if self.binary:
            return f"{family}, {'binary code point comparison' if self.binary == 'BIN2' else 'binary'} sort"
        words = [("case", self.case), ("accent", self.accent), ("kanatype", self.kana), ("width", self.width)]
        shown = ", ".join(f"{word}-{'' if heeded else 'in'}sensitive" for word, heeded in words)
        more = (", supplementary characters" if self.supplementary else "") + (", UTF8" if self.utf8 else "")
        if not self.sort_id:
            return family + ", " + shown + more
        return (
            f"{family}, {shown} for Unicode Data, SQL Server Sort Order {self.sort_id} on Code Page {self.code_page} for "
            "non-Unicode Data"
        )


def _entries(text: str) -> Iterator[list[str]]:
    return (entry.split() for entry in text.replace("\n", "|").split("|") if entry.strip())


_WINDOWS = {
    name.upper(): (name, int(lcid, 16), int(page), version)
    for version, text in enumerate((_FAMILIES_80, _FAMILIES_90, _FAMILIES_100, _FAMILIES_140))
    for name, lcid, page in _entries(text)
}


def _sql(name: str, sort_id: str, lcid: str, page: str) -> Collation:
    binary = "BIN" if name.endswith("_BIN") else ""
    return Collation(
        name, int(lcid, 16), int(page), 0, int(sort_id), binary, "_CS_" in name, not name.endswith("_AI"), False, False
    )


_SQL_COLLATIONS = {fields[0].upper(): _sql(fields[0], fields[1], fields[2], fields[3]) for fields in _entries(_SQL)}


@lru_cache(maxsize=1024)
def find(name: str) -> Collation | None:
    """The collation of this name, in whatever case it is written; None for a name that is none."""
    upper = name.upper()
    known = _SQL_COLLATIONS.get(upper)
    if known is not None:
        return known
    for match in _STYLE.finditer(name):
        family = _WINDOWS.get(upper[: match.start()])
        if match.end() == len(name) and family is not None:
            return _windows(*family, match)
    return None


def _windows(family: str, lcid: int, page: int, version: int, match: re.Match[str]) -> Collation | None:
    part = match.groupdict()
    binary = (part["binary"] or "").upper()
    utf8, supplementary = part["utf8"] is not None, part["supplementary"] is not None
    if (
        (supplementary and (version not in (1, 2) or binary))
        or (part["selectors"] and version != 3)
        or (utf8 and not (supplementary or version == 3 or (binary == "BIN2" and version)))
        or (binary == "BIN" and utf8)
    ):
        return None
    return Collation(
        family + match.group(0).upper(),
        lcid,
        UTF8 if utf8 else page,
        version,
        0,
        binary,
        (part["case"] or "").upper() == "CS",
        (part["accent"] or "").upper() != "AI",
        part["kana"] is not None,
        part["width"] is not None,
        supplementary or version == 3,
    )


def known(name: str) -> Collation:
    """The collation of a name that was accepted before; "" is the server's default."""
    found = find(name or SERVER_DEFAULT)
    assert found is not None, name
    return found


_BY_SORT_ID = {found.sort_id: found.code_page for found in _SQL_COLLATIONS.values()}
_BY_LCID = {lcid: page for _, lcid, page, _ in _WINDOWS.values()}


def code_page_of(wire: bytes) -> int:
    """The code page of text that comes with these five bytes; 1252 where they tell of none that is known."""
    bits = int.from_bytes(wire[:4], "little")
    if bits >> 26 & 1:
        return UTF8
    return _BY_SORT_ID.get(wire[4]) or _BY_LCID.get(bits & 0xFFFFF, LATIN1)


def every() -> Iterator[Collation]:
    """All that are known, by name, for sys.fn_helpcollations."""
    names = [found.name for found in _SQL_COLLATIONS.values()]
    plain = [f"_C{c}_A{a}{k}{w}" for c in "IS" for a in "IS" for k in ("", "_KS") for w in ("", "_WS")]
    for family, _, _, version in _WINDOWS.values():
        names += [family + style for style in ("_BIN", "_BIN2", *plain)]
        if version in (1, 2):
            names += [f"{family}_BIN2_UTF8", *(f"{family}{style}_SC{u}" for style in plain for u in ("", "_UTF8"))]
        if version == 3:
            names += [f"{family}_BIN2_UTF8", *(f"{family}{style}_UTF8" for style in plain)]
            names += [f"{family}{style}_VSS{u}" for style in plain for u in ("", "_UTF8")]
    return (known(name) for name in sorted(names, key=str.upper))
