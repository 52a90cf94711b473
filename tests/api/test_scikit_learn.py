"""scikit-learn's own tools on the Python classes; it is needed for these tests only."""

from __future__ import annotations

import numpy as np
import pytest

from bihm_repro import BiHM

sklearn = pytest.importorskip("sklearn", minversion="1.6")

from sklearn.base import clone  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import Binarizer  # noqa: E402
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

TINY = BiHM(
    layers=(3,),
    threshold=0.5,
    learning_rate=0.01,
    max_epochs=2,
    samples=2,
    eval_samples=5,
    average_over=None,
    verbose=0,
)
"""The checks' data are real numbers, so a threshold makes bits of them."""

BY_POSITION = (
    "score_samples is an estimate: the samples of q for a row depend on its position, "
    "so that results do not depend on the number of threads"
)
EXCEPTIONS = {
    "check_methods_sample_order_invariance": BY_POSITION,
    "check_methods_subset_invariance": BY_POSITION,
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Estimator BiHM does not inherit")
@parametrize_with_checks([TINY], expected_failed_checks=lambda estimator: EXCEPTIONS)
def test_common_checks(estimator, check):
    check(estimator)


def test_clone_copies_parameters_only(trained):
    model = trained[0]
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    with pytest.raises(NotFittedError, match="not trained"):
        copy.sample(1)


@pytest.mark.slow
def test_pipeline_and_grid_search(xor):
    pipeline = make_pipeline(Binarizer(threshold=0.5), clone(TINY))
    search = GridSearchCV(pipeline, {"bihm__layers": [(2,), (3,)]}, cv=2).fit(xor)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    width = search.best_params_["bihm__layers"][0]
    assert search.best_estimator_.transform(xor).shape == (600, width)
