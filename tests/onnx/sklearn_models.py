"""Models of scikit-learn as ONNX, by skl2onnx: equal to ONNX Runtime node by node and compiled.

    python -m tests.onnx.sklearn_models [--only PATTERN]

Exits with 1 where one does not load or differs by 1e-4. Needs scikit-learn, skl2onnx and ONNX Runtime.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import jitgraph as jg
from tests.onnx.shipped_models import distance_of, session_of

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 5)).astype(np.float32)
TWO = (X[:, 0] + X[:, 1] > 0).astype(int)
THREE = (X[:, 0] * 2 + X[:, 1] > 0).astype(int) + (X[:, 2] > 0.5)
NUMBERS = X @ np.arange(5, dtype=np.float32)


def estimators() -> Iterator[tuple[str, Any, Any]]:
    """A name, an estimator and its targets."""
    from sklearn import (
        cluster,
        decomposition,
        discriminant_analysis,
        ensemble,
        feature_selection,
        gaussian_process,
        impute,
        linear_model,
        naive_bayes,
        neighbors,
        neural_network,
        pipeline,
        preprocessing,
        svm,
        tree,
    )

    classifiers = {
        "logistic": linear_model.LogisticRegression(),
        "perceptron": linear_model.Perceptron(),
        "tree": tree.DecisionTreeClassifier(max_depth=4),
        "forest": ensemble.RandomForestClassifier(7, max_depth=4),
        "boosting": ensemble.GradientBoostingClassifier(n_estimators=5),
        "adaboost": ensemble.AdaBoostClassifier(n_estimators=4),
        "svc": svm.SVC(probability=True),
        "svc_without_probabilities": svm.SVC(kernel="poly"),
        "mlp": neural_network.MLPClassifier((8,), max_iter=50),
        "bayes": naive_bayes.GaussianNB(),
        "neighbours": neighbors.KNeighborsClassifier(3),
        "discriminant": discriminant_analysis.LinearDiscriminantAnalysis(),
        "pipeline": pipeline.make_pipeline(
            preprocessing.StandardScaler(), decomposition.PCA(3), linear_model.LogisticRegression()
        ),
    }
    for name, estimator in classifiers.items():
        yield f"{name}_2", estimator, TWO
        yield f"{name}_3", estimator, THREE
    for name, estimator in {
        "linear": linear_model.LinearRegression(),
        "tree_regressor": tree.DecisionTreeRegressor(max_depth=4),
        "forest_regressor": ensemble.RandomForestRegressor(7, max_depth=4),
        "boosting_regressor": ensemble.GradientBoostingRegressor(n_estimators=5),
        "svr": svm.SVR(),
        "svr_sigmoid": svm.SVR(kernel="sigmoid"),
        "gaussian_process": gaussian_process.GaussianProcessRegressor(),
        "best_features": feature_selection.SelectKBest(feature_selection.f_regression, k=2),
    }.items():
        yield name, estimator, NUMBERS
    for name, estimator in {
        "one_class": svm.OneClassSVM(),
        "isolation": ensemble.IsolationForest(n_estimators=4),
        "clusters": cluster.KMeans(3, n_init=1),
        "components": decomposition.PCA(2),
        "scaler": preprocessing.StandardScaler(),
        "norm": preprocessing.Normalizer("l1"),
        "binarizer": preprocessing.Binarizer(),
        "polynomials": preprocessing.PolynomialFeatures(2),
        "imputer": impute.SimpleImputer(),
        "power": preprocessing.PowerTransformer(),
    }.items():
        yield name, estimator, None


def main() -> None:
    from skl2onnx import to_onnx

    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="a pattern of names")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    count = short = 0
    x = RNG.standard_normal((9, 5)).astype(np.float32)
    for name, estimator, targets in estimators():
        if not re.search(args.only, name):
            continue
        estimator.fit(X) if targets is None else estimator.fit(X, targets)
        options = {id(estimator): {"zipmap": False}} if hasattr(estimator, "classes_") else None
        model = to_onnx(estimator, X[:1], options=options, target_opset={"": 18, "ai.onnx.ml": 3}).SerializeToString()
        session = session_of(model)
        expected = session.run(None, {session.get_inputs()[0].name: x})
        count += 1
        try:
            module = jg.onnx.load(model)
            distance = max(distance_of(run(x), expected) for run in (module.forward, module))
            text = f"equal to {distance:.0e}" if distance <= 1e-4 else f"DIFFERS by {distance:.0e}"
        except Exception as error:
            text, distance = f"{type(error).__name__}: {str(error)[:200]}", np.inf
        short += distance > 1e-4
        print(f"{name}: {text}", flush=True)
    print(f"{count} models, of which {short} fall short")
    sys.exit(1 if short else 0)


if __name__ == "__main__":
    main()
