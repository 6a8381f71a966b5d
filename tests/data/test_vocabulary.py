import json

import numpy as np

from tft_keras.data.vocabulary import Vocabulary


def test_codes_follow_the_sorted_keys_of_the_training_rows():
    vocabulary = Vocabulary.fit(np.array([2, 0, 2]), ["b", "x", "a"])
    assert vocabulary.keys == ["a", "b"]
    assert vocabulary.size == 3
    codes = vocabulary.encode(np.array([0, 1, 2, -1]), ["b", "x", "a"])
    assert codes.dtype == np.int32
    assert codes.tolist() == [2, 0, 1, 0]  # neither "x" nor missing was among the training rows


def test_missing_is_a_category_if_seen():
    vocabulary = Vocabulary.fit(np.array([0, -1]), ["a"])
    assert vocabulary.size == 3
    assert vocabulary.encode(np.array([-1, 0]), ["a"]).tolist() == [2, 1]


def test_categories_are_matched_by_value_in_another_table():
    vocabulary = Vocabulary.fit(np.array([0, 1]), ["a", "b"])
    assert vocabulary.encode(np.array([0, 1, 2]), ["b", "new", "a"]).tolist() == [2, 0, 1]


def test_goes_to_json_and_back():
    vocabulary = Vocabulary.fit(np.array([0, 1, -1]), ["a", "b"])
    assert Vocabulary.from_dict(json.loads(json.dumps(vocabulary.to_dict()))) == vocabulary
