"""The picture of the guide tells the stories of the document."""

from __future__ import annotations

from deploy.watermarks_picture import STORIES, story, watermarks_picture


def test_a_count_grows_by_its_target_when_all_are_used_and_comes_back() -> None:
    _, policy, replicas, least, used = STORIES[0]
    moments = story(policy, replicas, least, used)
    assert [each.replicas for each in moments] == [10, 10, 10, 20, 20, 20, 30, 30, 18, 18, 10]
    assert all(each.used <= each.replicas for each in moments)


def test_a_share_grows_and_shrinks_with_the_pool() -> None:
    _, policy, replicas, least, used = STORIES[1]
    moments = story(policy, replicas, least, used)
    assert max(each.marks.target for each in moments) > 4 * moments[0].marks.target
    assert moments[-1].replicas < max(each.replicas for each in moments) / 2


def test_it_is_a_picture_with_a_chart_for_each_story() -> None:
    picture = watermarks_picture()
    assert picture.count("<g transform") == picture.count("</g>") == len(STORIES)
    assert picture.startswith("<svg ")
