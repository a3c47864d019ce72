"""Lexical methods on tools and requests in scripts that are not Latin, each request written apart from its tool."""

from __future__ import annotations

import numpy as np
import pytest
from kit.rankings import make_library, make_queries

from bench.data.gold import Gold
from bench.data.tables import Tool
from bench.interface import History, Library, Queries
from bench.interface.explanation import Case
from bench.registry import build_method

#: A language -> its tools in their order, each with a request.
LIBRARIES = {
    "chinese": [
        ("查询一座城市未来几天的天气", "后天广州天气如何"),
        ("预订酒店房间", "给我在西湖边订一家酒店"),
        ("把一种货币换算成另一种货币", "一百欧元能换算多少日元"),
        ("播放歌曲或整张专辑", "放一首周杰伦的歌曲"),
        ("向联系人发送电子邮件", "替我写封邮件发送给老板"),
    ],
    "japanese": [
        ("都市の天気予報を調べる", "来週の札幌の天気は？"),
        ("ホテルの部屋を予約する", "京都でホテルを取りたい"),
        ("通貨を換算します", "百ユーロを円に換算して"),
        ("曲やアルバムを再生する", "バッハの曲を再生して"),
        ("メールを送信する", "部長にメールを送って"),
    ],
    "korean": [
        ("도시의 날씨를 조회합니다", "내일 부산 날씨가 어때"),
        ("호텔 객실을 예약합니다", "제주도에 호텔 하나 잡아 줘"),
        ("통화를 환전하여 계산합니다", "백 유로 환전하면 얼마야"),
        ("음악을 재생합니다", "조용한 음악 틀어 줘"),
        ("이메일을 보냅니다", "사장님께 이메일 써 줘"),
    ],
    "thai": [
        ("ดูพยากรณ์อากาศของเมือง", "พรุ่งนี้อากาศที่เชียงใหม่เป็นอย่างไร"),
        ("จองห้องพักในโรงแรม", "อยากได้โรงแรมใกล้ทะเล"),
        ("แปลงสกุลเงิน", "หนึ่งร้อยยูโรเป็นเงินบาทเท่าไร"),
        ("เล่นเพลงหรืออัลบั้ม", "ขอฟังเพลงเบาๆ"),
        ("ส่งอีเมลถึงผู้ติดต่อ", "เขียนอีเมลหาหัวหน้า"),
    ],
    "hindi": [
        ("शहर के मौसम की जानकारी", "कल दिल्ली में मौसम कैसा रहेगा"),
        ("होटल का कमरा बुक करें", "समुद्र किनारे एक होटल चाहिए"),
        ("मुद्रा बदलें", "सौ यूरो की मुद्रा बदलना है"),
        ("गीत या एल्बम बजाएँ", "कोई पुराना गीत सुनाओ"),
        ("ईमेल भेजें", "मेरे बॉस को ईमेल लिखो"),
    ],
    "arabic": [
        ("عرض حالة الطقس في مدينة", "كيف الطَّقْس غدا"),
        ("حجز غرفة في فندق", "أريد فندق قرب البحر"),
        ("تحويل عملة إلى أخرى", "كم يساوي تحويل مئة يورو"),
        ("تشغيل أغنية أو ألبوم", "شغل أغنية هادئة"),
        ("إرسال رسالة بريد", "اكتب رسالة للمدير"),
    ],
    "russian": [
        ("Показать погоду в городе", "какая завтра погода и погоду на неделю"),
        ("Забронировать номер в гостинице", "нужен номер у моря"),
        ("Перевести валюту", "обменять валюту на рубли"),
        ("Включить песню или альбом", "хочу послушать песню"),
        ("Отправить письмо", "напиши письмо начальнику"),
    ],
}


def library(language: str, *, named: bool) -> Library:
    """The tools of a language, with their descriptions as names or as descriptions."""
    texts = tuple(text for text, _ in LIBRARIES[language])
    tools = tuple(
        Tool(f"t{number}", text if named else f"t{number}", "" if named else text) for number, text in enumerate(texts)
    )
    return make_library(tools, texts)


def queries(language: str) -> Queries:
    return make_queries(*(text for _, text in LIBRARIES[language]))


@pytest.mark.parametrize("language", LIBRARIES)
@pytest.mark.parametrize("spec", ["bm25", "bm25-fields", "tfidf", "coverage", "regex", "names"])
def test_the_right_tool_is_first(spec: str, language: str) -> None:
    method = build_method(spec)
    # `names` reads nothing but names.
    method.index(library(language, named=spec == "names"))
    assert method.rank(queries(language), 1).tools[:, 0].tolist() == [0, 1, 2, 3, 4]


def test_pairs_of_characters_are_explained_like_words() -> None:
    method = build_method("bm25")
    tools = library("chinese", named=False)
    method.index(tools)
    query = Queries(queries("chinese").texts[:1], np.array([0]))
    history = History(tools, (), Gold.of([]), np.zeros(0, dtype=np.int8))
    answer = Case(tools, history, query, frozenset({0}), (0, 1), {}).answer(method)
    assert [part.name for part in answer.explanation.reasons[0].parts] == ["天气"]
    assert answer.explanation.notes[0].startswith("Tools that have a word")
