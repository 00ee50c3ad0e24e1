record("angle",
       lambda x: np.angle(x) if np.iscomplexobj(x) else np.where(np.isnan(x), np.nan, np.where(x < 0, np.pi, 0.0)),
       dtypes=FLOATS + COMPLEX, result="real",
       samples=unary())
